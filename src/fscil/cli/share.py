"""`fscil share`: a trained network with its card, in a folder or on the Hugging Face Hub."""

import importlib.util
from pathlib import Path
from typing import Annotated

import typer

from fscil.cli.options import ForceOption, refuse_existing, say
from fscil.core.errors import InputError


def share(
    run: Annotated[Path, typer.Argument(help="Folder of a run, or a trained network.")],
    out: Annotated[Path | None, typer.Option("--out", help="The folder to write (default: RUN/shared).")] = None,
    push: Annotated[str | None, typer.Option("--push", help="Upload it as well, to USER/NAME on the Hub.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Where --push makes the repository.")] = False,
    force: ForceOption = False,
) -> None:
    """Weights, config, results and a model card in one folder, for others."""
    if importlib.util.find_spec("huggingface_hub") is None:
        raise InputError("huggingface_hub is not installed; get it with: pip install 'fscil[hub]'.")
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    from fscil.sharing.network import SharedNetwork

    if out is None and not run.is_dir():
        raise InputError(f"{run} is not a folder of a run; say where to write with --out.")
    folder = out or run / "shared"
    refuse_existing([folder], force)
    network = SharedNetwork.from_run(run)
    network.save_pretrained(folder)
    say(f"Network and card: {folder.resolve()}")
    if push:
        try:
            say(f"Uploaded: {network.push_to_hub(push, private=private)}")
        except LocalTokenNotFoundError:
            raise InputError("The Hub does not know you here; log in with `hf auth login` and push again.") from None
        except (HfHubHTTPError, HFValidationError, OSError) as error:
            sentence = str(error).strip().splitlines()[0]
            raise InputError(f"{push} was not uploaded: {sentence}; {folder} is whole, so push it again.") from None
