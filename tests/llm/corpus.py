"""2,000 strings in many scripts, made by a seeded script: what tokenizers meet in use."""

from __future__ import annotations

import random

RANGES = {
    "latin": [(0x41, 0x5A), (0x61, 0x7A), (0xC0, 0x24F)],
    "cyrillic": [(0x410, 0x44F)],
    "greek": [(0x391, 0x3C9)],
    "arabic": [(0x621, 0x64A), (0x64B, 0x652), (0x660, 0x669)],
    "hebrew": [(0x5D0, 0x5EA), (0x5B0, 0x5BC)],
    "devanagari": [(0x905, 0x939), (0x93E, 0x94D), (0x966, 0x96F)],
    "bengali": [(0x985, 0x9B9), (0x9BE, 0x9CD)],
    "thai": [(0xE01, 0xE3A), (0xE40, 0xE4E)],
    "han": [(0x4E00, 0x4FFF), (0x6E00, 0x6FFF)],
    "kana": [(0x3041, 0x3096), (0x30A1, 0x30FA)],
    "hangul": [(0xAC00, 0xAFFF)],
    "georgian": [(0x10D0, 0x10FA)],
    "emoji": [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F)],
    "marks": [(0x300, 0x34F)],
    "symbols": [(0x2000, 0x206F), (0x20A0, 0x20BF), (0x2190, 0x21FF), (0x2581, 0x2581)],
    "numbers": [(0x30, 0x39), (0xB2, 0xB3), (0x2160, 0x216B), (0xFF10, 0xFF19)],
    "controls": [
        (0x0, 0x1F),
        (0x7F, 0x9F),
        (0xAD, 0xAD),
        (0x200B, 0x200F),
        (0xFEFF, 0xFEFF),
        (0xFFFD, 0xFFFD),
    ],
    "spaces": [(0x20, 0x20), (0x20, 0x20), (0x9, 0xD), (0xA0, 0xA0), (0x2002, 0x200A), (0x3000, 0x3000)],
    "planes": [
        (0x10400, 0x1044F),
        (0x1D400, 0x1D4FF),
        (0xE000, 0xE010),
        (0x20000, 0x20010),
        (0x10FFFD, 0x10FFFD),
    ],
    "marks of ascii": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)],
}
PIECES = [
    "the",
    "Once upon a time",
    "don't",
    "I'LL",
    "we've",
    "it's",
    "they'RE",
    "'s",
    " 'd",
    "1234567",
    "3.14159",
    "0x1F",
    "café",
    "naïve",
    "cafe\u0301",
    "ﬁne",
    "½",
    "Straße",
    "İstanbul",
    "ΑΣ",
    "CamelCaseWord",
    "snake_case_word",
    "HTTPServer",
    "übergroß",
    "Éclair",
    "def f(x):\n    return x + 1\n",
    "\tif (a && b) { c++; }\r\n",
    "for i in range(10):\n\t\tprint(i)",
    "x = y  # comment",
    "</div>",
    "https://example.org/a?b=c&d=e#f",
    "a@b.co",
    "$12,345.67",
    "100%",
    "C#",
    "...",
    "!!!",
    "?!",
    "----",
    "====",
    "\n",
    "\n\n\n",
    "\r\n",
    " ",
    "  ",
    "   ",
    "       ",
    "\t",
    "\u3000",
    "\u00a0",
    "▁",
    "▁▁a",
    "<0x0A>",
    "<s>",
    "</s>",
    "<unk>",
    "<|endoftext|>",
    "<|im_end|>",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[UNK]",
    "<tool>",
    "<|end",
    "s>",
    "##ing",
    "👩‍👩‍👧‍👦",
    "👍🏽",
    "🇩🇪",
    "❤️",
    "नमस्ते",
    "ประเทศไทย",
    "こんにちは世界",
    "안녕하세요",
    "שלום",
    "مرحبا بالعالم",
    "Привет, мир!",
    "Γειά σου",
    "你好，世界。",
    "龍",
    "\u202eabc\u202c",
    "\u0000",
    "\u001b[0m",
    "\ufeff",
    "\u0130\u0131",
]


def corpus(count: int = 2000, seed: int = 7) -> list[str]:
    """The pieces themselves, then mixtures of them and of random characters of one script or of several."""
    draw = random.Random(seed)
    texts = ["", *PIECES]
    scripts = sorted(RANGES)
    while len(texts) < count:
        parts: list[str] = []
        home = draw.choice(scripts)
        for _ in range(draw.randint(1, 8)):
            if draw.random() < 0.4:
                parts.append(draw.choice(PIECES))
            else:
                ranges = RANGES[home if draw.random() < 0.7 else draw.choice(scripts)]
                bounds = [draw.choice(ranges) for _ in range(draw.randint(1, 8))]
                parts.append("".join(chr(draw.randint(*bound)) for bound in bounds))
            parts.append(draw.choice(["", "", " ", " ", "  ", "\n"]))
        texts.append("".join(parts))
    return texts
