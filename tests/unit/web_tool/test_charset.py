import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.web_tool.charset import decode
from services.web_tool.unreadable import Unreadable

LATE = b"<html><head><script>" + b"x" * 20_000 + b"</script>"


@pytest.mark.parametrize(
    ("body", "content_type", "text", "charset"),
    [
        (b"\xef\xbb\xbfm\xc3\xb6se", "text/html; charset=iso-8859-1", "möse", "utf-8"),
        ("möse".encode("utf-16"), "text/html; charset=utf-8", "möse", "utf-16le"),
        (b"m\xf6se", "text/html; charset=ISO-8859-1", "möse", "windows-1252"),
        (b"\x93m\xf6se\x94", "text/html; charset='latin1'", "“möse”", "windows-1252"),
        ("möse".encode(), "text/html", "möse", "utf-8"),
        ("ключ".encode("koi8-r"), "text/html; charset=koi8-r", "ключ", "koi8-r"),
        ("銅価格".encode("cp932"), "text/html;charset=Shift_JIS", "銅価格", "shift_jis"),
        ("구리".encode("cp949"), "text/html; charset=ks_c_5601-1987", "구리", "euc-kr"),
        ("möse".encode(), "text/html; charset=nosuch", "möse", "utf-8"),
        (b"m\xf6se", "text/html; charset=nosuch", "möse", "windows-1252"),
        ("x".encode("utf-16-le") * 20, "text/plain", "x" * 20, "utf-16le"),
        ("año ñ".encode()[:-1], "text/plain", "año ", "utf-8"),
    ],
)
def test_a_mark_then_the_header_then_a_guess_tell_the_charset(body, content_type, text, charset):
    assert decode(body, content_type, is_markup=True) == (text, charset)


@pytest.mark.parametrize(
    ("body", "end", "charset"),
    [
        (b"<meta charset=iso-8859-2>" + "łódź".encode("iso8859-2"), "łódź", "iso-8859-2"),
        (
            b"<META HTTP-EQUIV=x CONTENT='text/html; charset=windows-1251'>" + "ключ".encode("cp1251"),
            "ключ",
            "windows-1251",
        ),
        (b"<?xml version='1.0' encoding='ISO-8859-15'?>" + "5 €".encode("iso8859-15"), "5 €", "iso-8859-15"),
        (LATE + b"<meta charset=gb2312>" + "铜价".encode("gb2312"), "铜价", "gbk"),
        (LATE + "铜的价格今天上涨了，市场反应强烈。".encode("gb2312") * 3, "市场反应强烈。", "gb18030"),
        (b"<meta charset=utf-16>" + "ñ".encode(), "ñ", "utf-8"),
    ],
)
def test_a_page_may_say_its_charset_itself(body, end, charset):
    text, found = decode(body, "text/html", is_markup=True)
    assert (text[-len(end) :], found) == (end, charset)


def test_plain_text_declares_nothing():
    assert decode(b"<meta charset=koi8-r> \xf1", "text/plain", is_markup=False)[0].endswith("ñ")


@pytest.mark.parametrize(
    "label", ["utf-7", "UTF7", "utf-32", "hz", "iso-2022-kr", "unicode_escape", "punycode", "cp037"]
)
def test_charsets_that_no_browser_reads_are_refused(label):
    for content_type, body in ((f"text/html; charset={label}", b""), ("text/html", f"<meta charset={label}>".encode())):
        with pytest.raises(Unreadable) as caught:
            decode(body + b"+ADw-script+AD4-", content_type, is_markup=True)
        assert caught.value.rule == "charset"


def test_utf_7_that_nobody_declares_stays_what_it_is():
    assert "<" not in decode(b"+ADw-script+AD4-", "text/html", is_markup=True)[0]


@given(st.binary(max_size=300), st.text(max_size=40))
def test_any_bytes_become_text_or_are_refused(body, content_type):
    try:
        assert isinstance(decode(body, content_type, is_markup=True)[0], str)
    except Unreadable:
        pass
