"""glyphs: the built-in benchmark. Characters of several scripts, drawn with the fonts matplotlib carries.

Nothing is downloaded and no image is shipped: they are rendered on first use, the same on every machine
with the same fonts, and cached. Training and test images share neither fonts nor distortion seeds, so the
test is about the shape of a character, not about a typeface.
"""

import hashlib
import zipfile
import zlib
from pathlib import Path

import matplotlib
import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from fscil.core.config import DataConfig
from fscil.core.progress import Reporter
from fscil.core.storage import cache_folder, write_atomic
from fscil.data.dataset import Dataset, ImageSet

# Chosen so that no two look alike in all fonts (checked by a test), then shuffled once, so that base and
# novel classes are drawn from the same mix of scripts. The order is the benchmark's class order.
CHARACTERS = "5m%ɮßøf#ƒDgAΩЮjρqθЂæξEταWπQ4Y$ЛЪζΣʔ¶Ц?¿yeʒ6Φ3UЖGΔʊλДΞi@δ8ЧЬþηφ7γЄb€9ZJ&£§ЉtXЭʞωЫʁ2MψΓRHrЙLЯμTШNKəσdε"

TRAIN_FONTS = tuple(
    f"DejaVu{family}{style}.ttf"
    for family, styles in {
        "Sans": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "SansMono": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "Serif": ("", "-Bold", "-Italic", "-BoldItalic"),
    }.items()
    for style in styles
)
TEST_FONTS = ("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf", "STIXGeneralBolIta.ttf")

SIZE = 32  # pixels of an image
MASTER = 96  # pixels of the undistorted drawing: three times finer, so that warping leaves edges smooth
TRAIN_PER_CLASS = 96
TEST_PER_CLASS = 60
VERSION = 1  # raise it when rendering changes: cached images of another version are not used


def load(config: DataConfig | None = None, _: Reporter | None = None, *, cache: Path | None = None) -> Dataset:
    """Render the data set, or read it from the cache. There is nothing in `config` that would change it."""
    path = (cache or cache_folder()) / f"glyphs-{_fingerprint()}.npz"
    arrays = _read(path)
    if arrays is None:
        train = render_split(TRAIN_FONTS, TRAIN_PER_CLASS, split_seed=1)
        test = render_split(TEST_FONTS, TEST_PER_CLASS, split_seed=2)
        write_atomic(path, lambda target: np.savez_compressed(target, train_images=train, test_images=test))
        arrays = {"train_images": train, "test_images": test}
    classes = np.arange(len(CHARACTERS))
    return Dataset(
        name="glyphs",
        train=ImageSet(arrays["train_images"], np.repeat(classes, TRAIN_PER_CLASS)),
        test=ImageSet(arrays["test_images"], np.repeat(classes, TEST_PER_CLASS)),
        class_names=tuple(CHARACTERS),
        identity=path.stem,
    )


def render_split(fonts: tuple[str, ...], per_class: int, split_seed: int) -> np.ndarray:
    """All images of one split, class by class: (classes * per_class, SIZE, SIZE, 3) uint8."""
    batches = []
    for index, character in enumerate(CHARACTERS):
        masters = torch.stack([torch.from_numpy(draw(character, font)) for font in fonts])
        generator = torch.Generator().manual_seed(split_seed * 1_000_003 + index)
        faces = torch.arange(per_class) % len(fonts)
        batches.append(distort(masters[faces], generator))
    grey = torch.cat(batches)
    return grey[..., None].expand(-1, -1, -1, 3).contiguous().numpy()


def draw(character: str, font: str) -> np.ndarray:
    """One character as ink coverage (MASTER, MASTER) in 0..1, fitted to two thirds of the square and centred."""
    face = ImageFont.truetype(str(font_folder() / font), 2 * MASTER)
    canvas = Image.new("L", (6 * MASTER, 6 * MASTER))
    ImageDraw.Draw(canvas).text((2 * MASTER, MASTER), character, fill=255, font=face)
    box = canvas.getbbox()
    if box is None:
        raise ValueError(f"Font {font} draws nothing for {character!r}.")
    glyph = canvas.crop(box)
    scale = (MASTER * 2 / 3) / max(glyph.size)
    width, height = (max(1, round(side * scale)) for side in glyph.size)
    glyph = glyph.resize((width, height), Image.Resampling.LANCZOS)
    square = Image.new("L", (MASTER, MASTER))
    square.paste(glyph, ((MASTER - width) // 2, (MASTER - height) // 2))
    return np.asarray(square, dtype=np.float32) / 255


def distort(ink: Tensor, generator: torch.Generator) -> Tensor:
    """Distort ink (n, MASTER, MASTER) per image: stroke weight, affine, elastic, contrast, noise. Returns uint8."""
    count = len(ink)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator) * (high - low) + low

    ink = _stroke_weight(ink[:, None], uniform(-0.6, 1.0))
    angle, shear = uniform(-0.26, 0.26), uniform(-0.25, 0.25)
    zoom_x, zoom_y = uniform(0.75, 1.15), uniform(0.75, 1.15)
    affine = torch.zeros(count, 2, 3)
    # Output-to-input map, as grid_sample wants it: rotation times shear, divided by the zoom.
    affine[:, 0, 0] = angle.cos() / zoom_x
    affine[:, 0, 1] = (shear - angle.sin()) / zoom_x
    affine[:, 1, 0] = angle.sin() / zoom_y
    affine[:, 1, 1] = angle.cos() / zoom_y
    affine[:, :, 2] = uniform(-0.12, 0.12, 2)
    grid = F.affine_grid(affine, [count, 1, MASTER, MASTER], align_corners=False)
    bumps = uniform(-1, 1, 2, 5, 5) * uniform(0.02, 0.10)[:, None, None, None]
    elastic = F.interpolate(bumps, size=(MASTER, MASTER), mode="bicubic", align_corners=True)
    warped = F.grid_sample(ink, grid + elastic.permute(0, 2, 3, 1), align_corners=False)
    small = F.avg_pool2d(warped, MASTER // SIZE)[:, 0].clamp(0, 1)
    paper = uniform(0.70, 1.0)[:, None, None]
    contrast = uniform(0.35, 0.70)[:, None, None]
    noise = torch.randn(count, SIZE, SIZE, generator=generator) * uniform(0.0, 0.09)[:, None, None]
    return ((paper - contrast * small + noise).clamp(0, 1) * 255).round().to(torch.uint8)


def _stroke_weight(ink: Tensor, weight: Tensor) -> Tensor:
    """Blend towards a dilated (weight > 0) or an eroded (weight < 0) drawing."""
    thick = F.max_pool2d(ink, 5, stride=1, padding=2)
    thin = -F.max_pool2d(-ink, 3, stride=1, padding=1)
    weight = weight[:, None, None, None]
    return ink + weight.clamp(min=0) * (thick - ink) + (-weight).clamp(min=0) * (thin - ink)


def font_folder() -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def _fingerprint() -> str:
    """Names the cached file: fonts, characters, counts and the rendering version all enter it."""
    digest = hashlib.sha256(f"{VERSION} {CHARACTERS} {TRAIN_PER_CLASS} {TEST_PER_CLASS} {SIZE}".encode())
    for font in (*TRAIN_FONTS, *TEST_FONTS):
        digest.update((font_folder() / font).read_bytes())
    return digest.hexdigest()[:16]


def _read(path: Path) -> dict[str, np.ndarray] | None:
    """Cached arrays, or None where there are none or the file is damaged (it is then rendered again)."""
    try:
        with np.load(path) as stored:
            return {name: stored[name] for name in ("train_images", "test_images")}
    except (FileNotFoundError, ValueError, KeyError, OSError, EOFError, zlib.error, zipfile.BadZipFile):
        return None
