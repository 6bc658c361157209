import email.policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ingestion.parsed import Unreadable
from services.ingestion.parsers.parse import parse

OFFICE = Path(__file__).parents[2] / "data/documents/office"


def message(subject="Revisión del contrato"):
    mail = EmailMessage()
    mail["From"] = "Ana Núñez <ana@example.org>"
    mail["To"] = "Luis <luis@example.org>"
    mail["Date"] = "Mon, 02 Mar 2026 10:00:00 +0100"
    mail["Subject"] = subject
    return mail


def texts(parsed):
    return [block.text for block in parsed.blocks]


def test_heads_body_and_attachments_are_read():
    mail = message()
    mail.set_content("Hola, Luis:\n\nAdjunto el anexo.\n", charset="iso-8859-1")
    mail.add_alternative("<p>Hola, <b>Luis</b></p>", subtype="html")
    mail.add_attachment(b"Pieza;Precio\nM6;2,50\n", maintype="text", subtype="csv", filename="añexo.csv")
    mail.add_attachment(b"\x7fELF\0\0\0\0\1\2\3", maintype="application", subtype="octet-stream", filename="a.exe")
    parsed = parse(mail.as_bytes(), "a.eml")
    assert parsed.title == "Revisión del contrato"
    assert texts(parsed) == [
        "Revisión del contrato",
        "From: Ana Núñez <ana@example.org>\nTo: Luis <luis@example.org>\nDate: Mon, 02 Mar 2026 10:00:00 +0100\n"
        "Attachments: añexo.csv, a.exe",
        "Hola, Luis:",
        "Adjunto el anexo.",
        "| Pieza | Precio |\n| --- | --- |\n| M6 | 2,50 |",
    ]
    assert parsed.blocks[-1].section == ("Revisión del contrato", "Attachment añexo.csv")
    assert parsed.warnings == ("The attachment a.exe was not read: The file is a program, whatever its name says: "
                               "it holds no document.",)  # fmt: skip


def test_a_page_is_read_where_there_is_no_text():
    mail = message()
    mail.set_content("<h1>Oferta</h1><p>Vale hasta el lunes.</p>", subtype="html")
    assert texts(parse(mail.as_bytes(), "a.eml"))[2:] == ["Oferta", "Vale hasta el lunes."]


def test_mails_in_mails_are_read_to_a_depth():
    mail = message("0")
    mail.set_content("texto 0")
    for depth in range(1, 7):
        outer = message(str(depth))
        outer.set_content(f"texto {depth}")
        outer.add_attachment(mail)
        mail = outer
    parsed = parse(mail.as_bytes(), "a.eml")
    assert "texto 3" in texts(parsed)
    assert "texto 2" not in texts(parsed)
    assert "mail in a mail" in parsed.warnings[0]


def test_raw_bytes_in_heads_do_not_end_the_reading():
    raw = b"From: Jos\xe9 <j@example.org>\nSubject: =?utf-8?q?Pr=C3=B3rroga?=\nTo: x\nDate: never\n\nTexto con \xf1"
    parsed = parse(raw, "a.eml")
    assert parsed.title == "Prórroga"
    assert "Texto con ñ" in texts(parsed)


def test_a_mail_of_outlook_is_read():
    parsed = parse((OFFICE / "test_outlook_msg.msg").read_bytes(), "a.msg")
    assert texts(parsed) == [
        "Test Email Message",
        "From: M. C. Kurtuluş <muratcan.kurtulus@gmail.com>\nTo: test.recipient@example.com\n"
        "Date: 2024-12-22 08:23:00+00:00",
        "This is the body of the test email message",
    ]


@pytest.mark.parametrize("keep", [600, 2_000, 8_000])
def test_a_damaged_mail_of_outlook_is_refused(keep):
    with pytest.raises(Unreadable):
        parse((OFFICE / "test_outlook_msg.msg").read_bytes()[:keep], "a.msg")


lines = st.sampled_from([
    "From: a@b", "Subject: =?utf-8?b?broken", "Content-Type: multipart/mixed; boundary=x", "Content-Type: text/html",
    "Content-Transfer-Encoding: base64", "Content-Disposition: attachment; filename*=utf-8''%f",
    "--x", "--x--", "", "text",
    "Content-Type: message/rfc822", "Content-Type: text/plain; charset=nonsense", "Date: (((", "=?x?y?z?=",
])  # fmt: skip


@given(st.lists(lines, max_size=30))
def test_any_mail_is_read_or_refused(parts):
    try:
        parse("\n".join(["MIME-Version: 1.0", *parts]).encode(), "a.eml")
    except Unreadable:
        pass


def test_a_mail_is_read_with_any_line_ends():
    mail = message()
    mail.set_content("uno\n\ndos")
    assert texts(parse(mail.as_bytes(policy=email.policy.SMTP), "a.eml"))[2:] == ["uno", "dos"]
