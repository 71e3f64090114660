// Names that are nearly the same: 'STAR' and 'star', 'guinea-pig' and 'Guinea Pig', 'cat' and 'cats'. Whoever gives the
// second one may mean the first.

export const tidy = (name) => name.normalize("NFC").trim().split(/\s+/).join(" ");

const bare = (name) => name.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/[\s\p{P}]+/gu, "");

const singular = (name) => (name.length > 3 ? name.replace(/(?<=\p{L})s$/u, "") : name);

// The known name that another one nearly is; null where it is known itself, or like none.
export function near(name, known) {
  if (known.includes(name)) return null;
  const same = (other) => {
    const [one, two] = [bare(name), bare(other)];
    if (!one || !two) return name.toLowerCase() === other.toLowerCase(); // signs alone: '+' is not '-'
    return one === two || singular(one) === singular(two);
  };
  return known.find(same) ?? null;
}
