"""Characters that the normalizers of ``tokenizers`` 0.23.3 change.

Its libraries use several Unicode versions (8 to 17), Python's `unicodedata` another one. These
tables were read from that library for every code point, so that results do not depend on Python.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

# Not normalized, although Unicode 12.1 to 18 gives them a decomposition, a combining class or a
# composition.
_WITHOUT_FORMS = (
    "558 58B-58C 5C8-5C9 7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AF0 1DF6-1DFA "
    "209D-209F 32FF A7F1-A7F4 A82C AB69 105C9 105D2 105DA 105E4 10781-10785 10787-107B0 "
    "107B2-107BF 10D24-10D27 10D69-10D6D 10EAB-10EAC 10ECB-10ECF 10EF0-10EFB 10EFD-10EFF "
    "10F46-10F50 10F82-10F85 11070 1133B 11382-11385 1138B 1138E 11390-11391 113C2 113C5 "
    "113C7-113C8 113CE-113D0 1145E 11839-1183A 11935 11938 1193D-1193E 11943 119E0 11A34 "
    "11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 1611E 16121-16129 1612F 16D63 "
    "16D67-16D6A 16FF0-16FF1 1B123-1B126 1CCD6-1CCF9 1D127-1D128 1D250-1D252 1D25B-1D25C "
    "1D25F 1D280-1D281 1D6A6 1DF95 1DFCD-1DFFF 1E030-1E06D 1E08F 1E130-1E136 1E2AE "
    "1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F16C 1FBF0-1FBF9 "
)
# Nonspacing marks (Mn).
_NONSPACING = (
    "300-36F 483-487 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 "
    "6E7-6E8 6EA-6ED 711 730-74A 7A6-7B0 7EB-7F3 816-819 81B-823 825-827 829-82D 859-85B "
    "8E3-902 93A 93C 941-948 94D 951-957 962-963 981 9BC 9C1-9C4 9CD 9E2-9E3 A01-A02 A3C "
    "A41-A42 A47-A48 A4B-A4D A51 A70-A71 A75 A81-A82 ABC AC1-AC5 AC7-AC8 ACD AE2-AE3 B01 B3C "
    "B3F B41-B44 B4D B56 B62-B63 B82 BC0 BCD C00 C3E-C40 C46-C48 C4A-C4D C55-C56 C62-C63 C81 "
    "CBC CBF CC6 CCC-CCD CE2-CE3 D01 D41-D44 D4D D62-D63 DCA DD2-DD4 DD6 E31 E34-E3A E47-E4E "
    "EB1 EB4-EB9 EBB-EBC EC8-ECD F18-F19 F35 F37 F39 F71-F7E F80-F84 F86-F87 F8D-F97 F99-FBC "
    "FC6 102D-1030 1032-1037 1039-103A 103D-103E 1058-1059 105E-1060 1071-1074 1082 1085-1086 "
    "108D 109D 135D-135F 1712-1714 1732-1734 1752-1753 1772-1773 17B4-17B5 17B7-17BD 17C6 "
    "17C9-17D3 17DD 180B-180D 18A9 1920-1922 1927-1928 1932 1939-193B 1A17-1A18 1A1B 1A56 "
    "1A58-1A5E 1A60 1A62 1A65-1A6C 1A73-1A7C 1A7F 1AB0-1ABD 1B00-1B03 1B34 1B36-1B3A 1B3C "
    "1B42 1B6B-1B73 1B80-1B81 1BA2-1BA5 1BA8-1BA9 1BAB-1BAD 1BE6 1BE8-1BE9 1BED 1BEF-1BF1 "
    "1C2C-1C33 1C36-1C37 1CD0-1CD2 1CD4-1CE0 1CE2-1CE8 1CED 1CF4 1CF8-1CF9 1DC0-1DF5 "
    "1DFC-1DFF 20D0-20DC 20E1 20E5-20F0 2CEF-2CF1 2D7F 2DE0-2DFF 302A-302D 3099-309A A66F "
    "A674-A67D A69E-A69F A6F0-A6F1 A802 A806 A80B A825-A826 A8C4 A8E0-A8F1 A926-A92D "
    "A947-A951 A980-A982 A9B3 A9B6-A9B9 A9BC A9E5 AA29-AA2E AA31-AA32 AA35-AA36 AA43 AA4C "
    "AA7C AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAEC-AAED AAF6 ABE5 ABE8 ABED FB1E "
    "FE00-FE0F FE20-FE2F 101FD 102E0 10376-1037A 10A01-10A03 10A05-10A06 10A0C-10A0F "
    "10A38-10A3A 10A3F 10AE5-10AE6 11001 11038-11046 1107F-11081 110B3-110B6 110B9-110BA "
    "11100-11102 11127-1112B 1112D-11134 11173 11180-11181 111B6-111BE 111CA-111CC "
    "1122F-11231 11234 11236-11237 112DF 112E3-112EA 11300-11301 1133C 11340 11366-1136C "
    "11370-11374 114B3-114B8 114BA 114BF-114C0 114C2-114C3 115B2-115B5 115BC-115BD "
    "115BF-115C0 115DC-115DD 11633-1163A 1163D 1163F-11640 116AB 116AD 116B0-116B5 116B7 "
    "1171D-1171F 11722-11725 11727-1172B 16AF0-16AF4 16B30-16B36 16F8F-16F92 1BC9D-1BC9E "
    "1D167-1D169 1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1DA00-1DA36 1DA3B-1DA6C "
    "1DA75 1DA84 1DA9B-1DA9F 1DAA1-1DAAF 1E8D0-1E8D6 E0100-E01EF "
)
# Spacing and enclosing marks (Mc, Me).
_OTHER_MARKS = (
    "488-489 8D4-8E1 903 93B 93E-940 949-94C 94E-94F 982-983 9BE-9C0 9C7-9C8 9CB-9CC 9D7 A03 "
    "A3E-A40 A83 ABE-AC0 AC9 ACB-ACC B02-B03 B3E B40 B47-B48 B4B-B4C B57 BBE-BBF BC1-BC2 "
    "BC6-BC8 BCA-BCC BD7 C01-C03 C41-C44 C82-C83 CBE CC0-CC4 CC7-CC8 CCA-CCB CD5-CD6 D02-D03 "
    "D3E-D40 D46-D48 D4A-D4C D57 D82-D83 DCF-DD1 DD8-DDF DF2-DF3 F3E-F3F F7F 102B-102C 1031 "
    "1038 103B-103C 1056-1057 1062-1064 1067-106D 1083-1084 1087-108C 108F 109A-109C 17B6 "
    "17BE-17C5 17C7-17C8 1885-1886 1923-1926 1929-192B 1930-1931 1933-1938 1A19-1A1A 1A55 "
    "1A57 1A61 1A63-1A64 1A6D-1A72 1ABE 1B04 1B35 1B3B 1B3D-1B41 1B43-1B44 1B82 1BA1 "
    "1BA6-1BA7 1BAA 1BE7 1BEA-1BEC 1BEE 1BF2-1BF3 1C24-1C2B 1C34-1C35 1CE1 1CF2-1CF3 1DFB "
    "20DD-20E0 20E2-20E4 302E-302F A670-A672 A823-A824 A827 A880-A881 A8B4-A8C3 A8C5 "
    "A952-A953 A983 A9B4-A9B5 A9BA-A9BB A9BD-A9C0 AA2F-AA30 AA33-AA34 AA4D AA7B AA7D AAEB "
    "AAEE-AAEF AAF5 ABE3-ABE4 ABE6-ABE7 ABE9-ABEA ABEC 11000 11002 11082 110B0-110B2 "
    "110B7-110B8 1112C 11182 111B3-111B5 111BF-111C0 1122C-1122E 11232-11233 11235 1123E "
    "112E0-112E2 11302-11303 1133E-1133F 11341-11344 11347-11348 1134B-1134D 11357 "
    "11362-11363 11435-11446 114B0-114B2 114B9 114BB-114BE 114C1 115AF-115B1 115B8-115BB "
    "115BE 11630-11632 1163B-1163C 1163E 116AC 116AE-116AF 116B6 11720-11721 11726 "
    "11C2F-11C36 11C38-11C3F 11C92-11CA7 11CA9-11CB6 16F51-16F7E 1D165-1D166 1D16D-1D172 "
    "1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E944-1E94A "
)
# Control, format and private characters, NUL and U+FFFD, without line ends and tabs.
_UNCLEAN = (
    "0-8 B-C E-1F 7F-9F AD 600-605 61C 6DD 70F 180E 200B-200F 202A-202E 2060-2064 2066-206F "
    "E000-F8FF FEFF FFF9-FFFB FFFD 110BD 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F "
    "F0000-FFFFD 100000-10FFFD "
)
_CLEAN_SPACES = "9-A D 20 A0 1680 2000-200A 2028-2029 202F 205F 3000"
# White_Space, which is stable.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + ("\u2028\u2029\u202f\u205f\u3000")
)
# CJK blocks; tokenizers leaves out 2B820-2B91F.
_IDEOGRAPHS = "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F"
_NMT_DROPPED = "1-8 B E-1F 7F 8F 9F"
_NMT_SPACES = "9-A C-D 1680 200B-200F 2028-2029 2581 FEFF FFFD"
# Capitals since Unicode 15: first, last, distance to their small letters.
_YOUNG_CAPITALS = (
    (0x1C89, 0x1C89, 1),
    (0xA7CB, 0xA7CB, -42343),
    (0xA7CC, 0xA7CC, 1),
    (0xA7CE, 0xA7CE, 1),
    (0xA7D2, 0xA7D2, 1),
    (0xA7D4, 0xA7D4, 1),
    (0xA7DA, 0xA7DA, 1),
    (0xA7DC, 0xA7DC, -42561),
    (0x10D50, 0x10D65, 32),
    (0x16EA0, 0x16EB8, 27),
)
# Grapheme clusters: marks that begin a new cluster, other characters that extend the one before,
# characters that join the next one, and characters that are a cluster of their own.
_MARKS_APART = (
    "102B-102C 1038 1062-1064 1067-106D 1083 1087-108C 108F 109A-109C 1A61 1A63-1A64 "
    "1CF2-1CF3 AA7B AA7D 11720-11721 "
)
_JOINED_TOO = (
    "7FD 897-89F 8CA-8D3 9FE AFA-AFF B55 C04 C3C CF3 D00 D3B-D3C D81 E33 EB3 EBA ECE 1715 "
    "180F 1ABF-1ADD 1AE0-1AEB 1CF7 1DF6-1DFA 200C-200D A82C A8FF FF9E-FF9F 10D24-10D27 "
    "10D69-10D6D 10EAB-10EAC 10EFA-10EFF 10F46-10F50 10F82-10F85 11070 11073-11074 110C2 "
    "11145-11146 111C9 111CE-111CF 11241 1133B 113B8-113C0 113C2 113C5 113C7-113CA "
    "113CC-113D0 113D2 113E1-113E2 1145E 1182C-1183A 11930-11935 11937-11938 1193B-1193E "
    "11940 11942-11943 119D1-119D7 119DA-119E0 119E4 11A01-11A0A 11A33-11A39 11A3B-11A3E "
    "11A47 11A51-11A5B 11A8A-11A99 11B60-11B67 11D31-11D36 11D3A 11D3C-11D3D 11D3F-11D45 "
    "11D47 11D8A-11D8E 11D90-11D91 11D93-11D97 11EF3-11EF6 11F00-11F01 11F03 11F34-11F3A "
    "11F3E-11F42 11F5A 13440 13447-13455 1611E-1612F 16F4F 16F7F-16F87 16FE4 16FF0-16FF1 "
    "1CF00-1CF2D 1CF30-1CF46 1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF "
    "1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1F3FB-1F3FF E0020-E007F "
)
_PREPENDED = (
    "600-605 6DD 70F 890-891 8E2 D4E 110BD 110CD 111C2-111C3 113D1 1193F 11941 11A84-11A89 "
    "11D46 11F02 "
)
_CONTROLS = (
    "0-1F 7F-9F AD 61C 180E 200B 200E-200F 2028-202E 2060-206F FEFF FFF0-FFFB 13430-1343F "
    "1BCA0-1BCA3 1D173-1D17A E0000-E001F E0080-E00FF E01F0-E0FFF"
)

_FAR = 0x10000


def points_of(ranges: str) -> list[int]:
    """The code points of ranges such as ``"41-5A 5F"``."""
    points: list[int] = []
    for range_ in ranges.split():
        first, _, last = range_.partition("-")
        points.extend(range(int(first, 16), int(last or first, 16) + 1))
    return points


def inside_set(points: list[int]) -> str:
    """Code points as the inside of a character set for `re`."""
    ranges = []
    points = sorted(points)
    begin = 0
    for index, point in enumerate(points):
        if index + 1 < len(points) and points[index + 1] == point + 1:
            continue
        ranges.append(f"\\U{points[begin]:08x}-\\U{point:08x}")
        begin = index + 1
    return "".join(ranges)


def one_of(points: list[int]) -> str:
    """A fast regex of `re` for one of these characters.

    `re` has a table for code points up to 16 bits and tries other ranges one by one, so these are
    checked only where a higher code point occurs.
    """
    near = [point for point in points if point < _FAR]
    far = [point for point in points if point >= _FAR]
    if not far:
        return f"[{inside_set(near)}]"
    return rf"[{inside_set(near)}\U00010000-\U0010ffff](?<=[\0-\uffff{inside_set(far)}])"


@functools.cache
def without_forms() -> re.Pattern[str]:
    """Group of one character that no Unicode form changes."""
    return re.compile(f"({one_of(points_of(_WITHOUT_FORMS))})")


@functools.cache
def nonspacing() -> re.Pattern[str]:
    return re.compile(one_of(points_of(_NONSPACING)))


@functools.cache
def marks() -> re.Pattern[str]:
    return re.compile(one_of(points_of(_NONSPACING) + points_of(_OTHER_MARKS)))


@dataclass(frozen=True, slots=True)
class DroppedAndSpaced:
    """Drops some characters and replaces others by spaces."""

    dropped: re.Pattern[str]
    spaces: re.Pattern[str]
    ascii: dict[int, str | None]

    @classmethod
    def of(cls, dropped: str, spaces: str) -> DroppedAndSpaced:
        none, space = points_of(dropped), sorted({*points_of(spaces)} - {0x20})
        return cls(
            re.compile(one_of(none)),
            re.compile(one_of(space)),
            {**dict.fromkeys(none), **dict.fromkeys(space, " ")},
        )

    def text(self, text: str) -> str:
        if text.isascii():
            return text.translate(self.ascii)  # fastest for ASCII, slowest otherwise
        return self.spaces.sub(" ", self.dropped.sub("", text))


@functools.cache
def cleaned() -> DroppedAndSpaced:
    """``clean_text`` of BertNormalizer."""
    return DroppedAndSpaced.of(_UNCLEAN, _CLEAN_SPACES)


@functools.cache
def nmt() -> DroppedAndSpaced:
    """Rules of Nmt."""
    return DroppedAndSpaced.of(_NMT_DROPPED, _NMT_SPACES)


@functools.cache
def ideographs() -> re.Pattern[str]:
    """Group of one character that BertNormalizer treats as Chinese."""
    return re.compile(f"({one_of(points_of(_IDEOGRAPHS))})")


@functools.cache
def young_capital() -> re.Pattern[str]:
    return re.compile(one_of(list(young_capitals())))


@functools.cache
def young_capitals() -> dict[int, int]:
    """Table of `str.translate` for capitals that Python may not know."""
    return {
        point: point + distance
        for first, last, distance in _YOUNG_CAPITALS
        for point in range(first, last + 1)
    }


@functools.cache
def joined() -> list[int]:
    """Characters that extend the grapheme cluster before them."""
    marks = {*points_of(_NONSPACING), *points_of(_OTHER_MARKS)}
    return sorted((marks - {*points_of(_MARKS_APART)}) | {*points_of(_JOINED_TOO)})


@functools.cache
def prepended() -> list[int]:
    """Characters that belong to the grapheme cluster after them."""
    return points_of(_PREPENDED)


@functools.cache
def controls() -> list[int]:
    """Characters that are their own grapheme cluster (but CR LF is one)."""
    return points_of(_CONTROLS)
