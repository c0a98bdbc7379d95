"""Markup of wiki pages -> what a reader sees."""

import pytest

from data import wikitext

PAGE = """Rome ({{lang|it|Roma}}; {{IPA|it|ˈroːma}}) is a '''[[city]]''' in
[[Italy|the ''Italian'' Republic]].<ref name="a">A {{cite|x=1}} note.</ref> It has
{{convert|12|km|mi}} of walls<!-- hidden
--> &amp; many {{nowrap|old stones}}.<ref name="a" /> See [http://x.org the site].

[[File:Rome.jpg|thumb|A picture. With [[link]]s.]]
{{Infobox
| name = {{nested|Rome}}
| text = This is no passage. Not at all.
}}
== History ==
* A list item, with a sentence. And another.
# A numbered one. Too.
: An indented one. Too.
{| class="wikitable"
|-
| A cell. || {|
| Inner cell. It is inside.
|}
|}
It grew.<br />Then it fell {{cn|date=May}}, they say. <math>x_1</math>

{{unclosed
The rest of a broken template. It has sentences. [[Category:Cities]]
"""


def test_passages_of_a_page():
    assert wikitext.passages(PAGE) == [
        "Rome (Roma) is a city in the Italian Republic. It has 12 km of walls & many "
        "old stones. See the site.",
        "It grew. Then it fell, they say.",
    ]


@pytest.mark.parametrize(
    ("text", "redirect", "disambiguation"),
    [
        ("#REDIRECT [[Rome]]", True, False),
        ("#пренасочване [[Рим]]", True, False),
        ("'''Rome''' may be:\n* [[Rome]]\n{{disambiguation|geo}}", False, True),
        ("'''Rom''' {{Begriffsklärung}}", False, True),
        ("# [[Rome]] is first. A list begins the page.", False, False),
        (PAGE, False, False),
    ],
)
def test_pages_without_passages(text, redirect, disambiguation):
    assert wikitext.is_redirect(text) == redirect
    assert wikitext.is_disambiguation(text) == disambiguation


def test_entities_in_links_become_characters():
    assert wikitext.passages("The [[A&ndash;B test]] and a [[:35&nbsp;mm film]].") == [
        "The A–B test and a 35 mm film."
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("{{School disambiguation}}", True),
        ("{{disambigua}}", True),
        ("{{Begriffsklärung}}", True),
        ("{{Неоднозначность|тип=имя}}", True),
        ("__DISAMBIG__", True),
        # These point to such a page, or mark a link to one.
        ("{{Begriffsklärungshinweis}}", False),
        ("{{Nota disambigua|b=c}}", False),
        ("a {{disambiguation needed|date=May}}", False),
        ("{{surname-stub}}", False),
    ],
)
def test_which_template_makes_a_page_a_disambiguation(text, expected):
    assert wikitext.is_disambiguation(text) is expected


@pytest.mark.parametrize(
    "text, expected",
    [
        # Sentence ends of other scripts; Thai has none.
        ("Երևանը Հայաստանի մայրաքաղաքն է։", None),
        ("اسلام آباد پاکستان کا دارالحکومت ہے۔", None),
        ("မြန်မာနိုင်ငံသည် နိုင်ငံ ဖြစ်သည်။", None),
        ("አዲስ አበባ የኢትዮጵያ ዋና ከተማ ናት።", None),
        ("กรุงเทพมหานครเป็นเมืองหลวงและนครที่มีประชากร มากที่สุด", None),
        ("กรุงเทพมหานคร", []),
        ("It is {{convert|5|to|10|km|mi}} long.", "It is 5 to 10 km long."),
        ("It is {{convert|10|-|20|km}} long.", "It is 10–20 km long."),
        ("A {{convert|5|x|10|m}} room is.", "A 5 × 10 m room is."),
        ("A {{convert|6|ft|2|in|m}} man is.", "A 6 ft 2 in man is."),
        ("The tower is {{Convert|5|km|mi}} high.", "The tower is 5 km high."),
        ("He {{Nowrap|1=went = home}} at ten.", "He went = home at ten."),
        ("In 5{{ndash}}6 years{{snd}}5{{nbsp}}million.", "In 5–6 years – 5 million."),
        ("[[Imagen:A.jpg|thumb|20px|Una vista.]] Es una ciudad.", "Es una ciudad."),
        ("Of [[CSI: Miami]] and [[Re:Zero|Re]].[[fr:Paris]]", "Of CSI: Miami and Re."),
        (
            "在-{zh-hans:计算机;zh-hant:電腦}-科学中有许多很长的句子。-{H|zh:x}-",
            "在计算机科学中有许多很长的句子。",
        ),
        ("Grad (-{Belgrade}-) je grad.", "Grad (Belgrade) je grad."),
        ("Text and text.<ref>a <br/> b</ref> And on.", "Text and text. And on."),
        ("__NOTOC__\n'''Rome''' is a capital.", "Rome is a capital."),
        ("The main() of a .45 caliber ( , ).", "The main() of a .45 caliber."),
    ],
)
def test_what_a_reader_sees(text, expected):
    expected = [text] if expected is None else expected
    found = wikitext.passages(text)
    assert found == ([expected] if isinstance(expected, str) else expected)


def test_a_redirect_in_a_script_with_combining_marks():
    assert wikitext.is_redirect("#अनुप्रेषित [[भारत]]")
    assert not wikitext.is_redirect("# [[a list]]")


def test_an_entity_of_half_a_character_is_replaced():
    assert wikitext.passages("The &#xD800; and the &#233; are here.") == [
        "The \ufffd and the é are here."
    ]


def test_removed_markup_leaves_no_traces():
    assert wikitext.clean("Rome ( ; , ) , a  city ( ; old) .") == "Rome, a city (old)."
    assert wikitext.clean("born in Rome (Latin: ; )  !") == "born in Rome (Latin)!"
