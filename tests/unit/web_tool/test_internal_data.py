"""Queries that must pass, queries that must not, and what is left of those from which something is taken out."""

import base64
import time
import unicodedata
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.runtime.tenants import Web
from services.web_tool.internal_data import inspect

TERMS = ("Proyecto Halcón", "CT-2025-*", "Viñas del Sur", "ELA", "Zephyrus", "INC*-ES", "猎鹰")
WEB = Web(internal_terms=TERMS)

# Real identifiers are nobody's: they are computed from the check digits, or are examples of the standards.
BENIGN = """
precio del cobre hoy
copper price per tonne 2026
Ley 39/2015 procedimiento administrativo
Real Decreto 1065/2007 artículo 12
Ley Orgánica 3/2018 de protección de datos
BOE-A-2015-10565 texto consolidado
Reglamento (UE) 2016/679 artículo 28
sentencia Tribunal Supremo 1234/2020 de 12 de marzo
STS 4567/2019, de 3 de octubre
RFC 9309 robots.txt
CVE-2024-3094 xz backdoor
ISO 27001:2022 annex A controls
UNE-EN ISO 9001:2015 cambios
EN 301 549 accesibilidad
IEC 62443-3-3 requirements
ISBN 978-84-376-0494-7
ISBN 84-376-0494-X
978 84 376 0494 7 Cien años de soledad
python 3.11.7 release notes
Chrome version 10.2.3.4 changelog
firmware v10.1.2.3 bug
kernel 6.12.1 changelog
inflación España 2022 2023 2024 2025
población de Madrid 3.332.035 habitantes
presupuesto 650.000.000 euros hospital
contrato de 912345678 euros adjudicado
PIB de España 1.498.324 millones
tipo de cambio EUR USD 1,0842
El Niño 1997-1998 vs 2023-2024
12 de octubre de 2025 festivo
2025-10-12T08:30:00Z to local time
horario 9:00-18:00 oficinas
what does 127.0.0.1 mean
192.168.1.1 router login
10.0.0.0/8 private network range
difference between 192.168.0.0/16 and 172.16.0.0/12
8.8.8.8 dns server
host.docker.internal not resolving linux
svc.cluster.local kubernetes dns
metadata.google.internal curl header
teléfono de atención de Renfe 912
900 123 456 es gratis
llamar al 112 o al 061
tallas 36 38 40 42 44 46
Boeing 737 MAX 8 vs Airbus A320neo
iPhone 16 Pro Max 256GB precio
RTX 4090 24GB vs H100 80GB
Meta-Llama-3.1-70B-Instruct-FP8 throughput
Qwen2.5-72B-Instruct-GPTQ-Int4 memory
AbstractSingletonProxyFactoryBean spring
java.util.concurrent.ThreadPoolExecutor queue size
http://www.w3.org/1999/xhtml namespace
DOI 10.1038/s41586-020-2649-2
arXiv 2005.11401 retrieval augmented generation
GPS 40.4168, -3.7038
código postal 28013 Madrid
NACE 2511 estructuras metálicas
CNAE 6201 programación
CPV 72000000-5 servicios TI
artículo 183 bis Código Penal
modelo 303 IVA 4T 2025 plazo
salario mínimo 2026 14 pagas 1.184 euros
C++17 std::optional
token: qué es en inteligencia artificial
api key: how to create one
contraseña: requisitos del ENS
what is a bearer token
la clave: resumen del libro
@elonmusk twitter
#BlackFriday2025 ofertas
user@ in bash prompt
git@github.com: permission denied (publickey)
ssh config for user@example.com
el análisis de sangre
gel a base de aloe
proyecto de ley de vivienda
halcón peregrino hábitat
halcones en Madrid
viñas del norte de Burgos
CT scan 2025 guidelines
incendio en España
zephyr wind god
ISIN ES0144580Y14 cotización
SWIFT CAIXESBBXXX
números primos 2 3 5 7 11 13 17 19 23 29
fibonacci 1 1 2 3 5 8 13 21 34 55 89
serie 4000 5000 6000 7000 comparativa
EAN 8410076472885
vuelo IB3170 Madrid Londres
matrícula 1234 BCD año
UTC+02:00 zona horaria
+50 % de descuento
100 % algodón 300 hilos
""".strip().splitlines()

LEAKING = {
    "contacto de juan.perez@acme.es": "email",
    "write to j+hr@mail.acme.co.uk about it": "email",
    "juan.perez (at) acme (dot) es": "email",
    "juan.perez arroba acme punto es": "email",
    "ｊｕａｎ＠ａｃｍｅ．ｅｓ correo": "email",
    "cuenta ES91 2100 0418 4502 0005 1332": "bank_account",
    "ES9121000418450200051332": "bank_account",
    "es91-2100-0418-45-0200051332 titular": "bank_account",
    "E S 9 1 2 1 0 0 0 4 1 8 4 5 0 2 0 0 0 5 1 3 3 2": "bank_account",
    "GB82 WEST 1234 5698 7654 32 owner": "bank_account",
    "DE89370400440532013000 bank": "bank_account",
    "CCC 2100 0418 45 0200051332": "bank_account",
    "4111 1111 1111 1111 declined": "payment_card",
    "tarjeta 5500-0000-0000-0004": "payment_card",
    "378282246310005 amex": "payment_card",
    "４１１１１１１１１１１１１１１１": "payment_card",
    "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1": "payment_card",
    "٤١١١١١١١١١١١١١١١": "payment_card",
    "DNI 12345678Z": "national_id",
    "12.345.678-Z expediente": "national_id",
    "12345678 Z deuda": "national_id",
    "nie x1234567l permiso": "national_id",
    "CIF A58818501 balance": "national_id",
    "28/12345678/40 vida laboral": "national_id",
    "SSN 219-09-9999": "national_id",
    "llamar a 612 345 678": "phone",
    "tel. 612345678": "phone",
    "+34 612 345 678 quién es": "phone",
    "0034612345678": "phone",
    "91 123 45 67 empresa": "phone",
    "(415) 555-2671 owner": "phone",
    "+33 6 12 34 56 78": "phone",
    "servidor 10.20.30.40 caído": "private_address",
    "ssh 192.168.7.23 timeout": "private_address",
    "fd12:3456:789a::1 unreachable": "private_address",
    "db01.prod.acme.corp connection refused": "internal_host",
    "http://wiki.intranet/pagina": "internal_host",
    r"\\srv-files\finanzas$ permisos": "internal_host",
    "sk-proj-abcdefghijklmnop1234 invalid": "secret",
    "AKIAIOSFODNN7EXAMPLE leaked": "secret",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "secret",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_123": "secret",
    "password=Hunter2!": "secret",
    "contraseña: Verano2025": "secret",
    "postgres://app:s3cret@db/prod error": "secret",
    "d41d8cd98f00b204e9800998ecf8427e": "secret",
    "Zx8Kq2Lm9Pw4Rt7Yb1Nc6Vd3Fg5Hj0Sa error": "secret",
    "coste del Proyecto Halcón": "internal_term",
    "PROYECTO HALCON retrasos": "internal_term",
    "proyecto   halco\u0301n": "internal_term",
    "proyecto-halcón licitación": "internal_term",
    "ProyectoHalcón": "internal_term",
    "proyecto_halcon_2025.pdf": "internal_term",
    "proyecto hal\u200bcón": "internal_term",
    "P r o y e c t o H a l c ó n": "internal_term",
    "pr0yect0 h4lcón": "internal_term",
    "рrоyесtо Hаlсón": "internal_term",  # Cyrillic р, о, е, с, а
    "𝐏𝐫𝐨𝐲𝐞𝐜𝐭𝐨 𝐇𝐚𝐥𝐜𝐨𝐧": "internal_term",
    "🇿🇪🇵🇭🇾🇷🇺🇸": "internal_term",
    "contrato CT-2025-0117 penalización": "internal_term",
    "C T - 2 0 2 5 - 0 1 1 7": "internal_term",
    "ct 2025 0117": "internal_term",
    "INC-48213-ES estado": "internal_term",
    "E L A presupuesto": "internal_term",
    "precio para ELA": "internal_term",
    "VINAS DEL SUR filial": "internal_term",
    "关于猎鹰项目的预算": "internal_term",
}  # fmt: skip


def encodings(text):
    raw = text.encode()
    return {
        "base64": base64.b64encode(raw).decode(),
        "base64 without padding": base64.b64encode(raw).decode().rstrip("="),
        "base64 for URLs": base64.urlsafe_b64encode(raw).decode(),
        "base64 of UTF-16": base64.b64encode(text.encode("utf-16-le")).decode(),
        "base64 of a sentence": base64.b64encode(f"el {text} va mal".encode()).decode(),
        "twice base64": base64.b64encode(base64.b64encode(raw)).decode(),
        "hex": raw.hex(),
        "hex with blanks": raw.hex(" "),
        "percent": "".join(f"%{byte:02X}" for byte in raw),
        "percent where needed": quote(text),
        "escapes": "".join(f"\\u{ord(character):04x}" for character in text),
        "entities": "".join(f"&#{ord(character)};" for character in text),
    }


@pytest.mark.parametrize("query", BENIGN)
def test_an_ordinary_query_passes_as_it_is(query):
    assert inspect(query, WEB) == inspect(query, Web(internal_data="allow"))


@pytest.mark.parametrize(("query", "kind"), LEAKING.items(), ids=range(len(LEAKING)))
def test_a_query_with_internal_data_is_refused_and_its_kind_named(query, kind):
    verdict = inspect(query, WEB)
    assert (verdict.action, verdict.query) == ("refuse", "")
    assert kind in verdict.kinds


@pytest.mark.parametrize("secret", ["Proyecto Halcón", "ES9121000418450200051332"])
@pytest.mark.parametrize("encoding", encodings("x"))
def test_an_encoded_term_or_account_is_found(encoding, secret):
    assert inspect(f"decode {encodings(secret)[encoding]} please", WEB).action == "refuse"


def test_terms_that_the_caller_marks_count_as_those_of_the_tenant():
    assert inspect("Acme Ibérica ventas", Web()).action == "pass"
    assert inspect("acme iberica ventas", Web(), ["Acme Ibérica"]).kinds == ("internal_term",)


def test_a_tenant_may_allow_everything():
    web = Web(internal_terms=TERMS, internal_data="allow")
    assert inspect("Proyecto Halcón 12345678Z", web).query == "Proyecto Halcón 12345678Z"


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("retrasos del Proyecto Halcón en Madrid", "retrasos del en Madrid"),
        ("contrato CT-2025-0117: penalización por retraso", "contrato : penalización por retraso"),
        ("¿quién es 12345678Z de 612 345 678?", "¿quién es de ?"),
        ("INC-48213-ES estado de la red", "estado de la red"),
    ],
)
def test_internal_data_is_taken_out_where_the_tenant_says_so(query, left):
    verdict = inspect(query, Web(internal_terms=TERMS, internal_data="redact"))
    assert (verdict.action, verdict.query) == ("redact", left)


def test_a_query_of_which_nothing_is_left_is_refused():
    web = Web(internal_terms=TERMS, internal_data="redact")
    assert inspect("Proyecto Halcón?", web).action == "refuse"


def test_a_term_that_would_be_made_by_taking_another_out_is_taken_out_too():
    web = Web(internal_terms=TERMS, internal_data="redact")
    assert inspect("Proyecto Proyecto Halcón Halcón coste", web).query == "coste"


@pytest.mark.parametrize("term", ["*", "**", "", " ", "-", "a", "* *"])
def test_a_term_that_says_nothing_catches_nothing(term):
    assert inspect("a b c precio - del cobre", Web(), (term,)).action == "pass"


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=1, max_size=12)


@given(st.text(max_size=400), st.lists(st.text(max_size=20), max_size=4))
def test_whatever_comes_there_is_a_verdict(query, terms):
    for action in ("refuse", "redact"):
        verdict = inspect(query, Web(internal_data=action), terms)
        assert verdict.action in ("pass", action, "refuse")


FORMS = [
    str.upper,
    str.lower,
    str.title,
    str.casefold,
    lambda text: " ".join(text),
    lambda text: "\u200b".join(text),
] + [lambda text, form=form: unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]


@given(
    st.text(st.characters(codec="utf-8", categories=("Lu", "Ll", "Nd")), min_size=5, max_size=12),
    st.lists(WORDS, max_size=6),
    st.sampled_from(FORMS),
)
def test_no_term_survives_redaction_in_any_form(term, words, form):
    web = Web(internal_terms=(term,), internal_data="redact")
    verdict = inspect(" ".join([*words, form(term), *words]), web)
    assert verdict.action in ("redact", "refuse")
    assert inspect(verdict.query, web).action == "pass"
    assert term.casefold() not in verdict.query.casefold().split()


def test_the_longest_query_against_many_terms_is_judged_in_time():
    web = Web(internal_terms=tuple(f"proyecto {number:05d} *x*" for number in range(5000)), internal_data="redact")
    hostile = ["1 " * 200, "a@" * 200, "x." * 200, "ES91" * 100, "(1) " * 100, "proyecto " * 44, "%41" * 133, "<" * 400]
    inspect("warm", web)
    for query in hostile:
        began = time.thread_time()
        inspect(query[:400], web)
        assert time.thread_time() - began < 3
