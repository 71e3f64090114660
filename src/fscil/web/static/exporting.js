// Export, with what is being done meanwhile.
import { api } from "./api.js";
import { byId, percent } from "./dom.js";
import { failure, notice } from "./notice.js";

const LOOK = 400; // ms between looks at what the server does

export async function exportModel() {
  const [button, said] = [byId("export"), byId("export-stage")];
  button.disabled = true;
  const tell = (text) => said.textContent === `${text}…` || (said.textContent = `${text}…`); // else it is read aloud again
  tell("Exporting");
  said.hidden = false;
  let making = true;
  const watching = (async () => {
    while (making) {
      const stage = await api.exportStage().catch(() => "");
      if (making && stage) tell(stage);
      await new Promise((resolve) => setTimeout(resolve, LOOK));
    }
  })();
  try {
    const { blob, name } = await api.export((share) => {
      making = false;
      tell(`Downloading, ${percent(share)}`);
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    notice(`Exported ${name}, checked against your own images.`);
  } catch (error) {
    failure(error);
  } finally {
    making = false;
    await watching;
    said.hidden = true;
    button.disabled = false;
  }
}
