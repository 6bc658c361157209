"""General Spanish and English words of offices, law and trade that mean the same, across languages and within one.

Only for words that do not look alike; cognates such as `condición` and `condition` are matched by `words.alike`.
"""

import functools
import re
from collections.abc import Mapping
from importlib import resources

from services.understudy.words import stem

_PAIRS = """
abogado lawyer; abono credit; acceso access; acreedor creditor; acuerdo agreement; adelantado advance; aduana customs;
agua water; ahorro saving; alquiler rent lease; alta registration; ambos both; ano year; antelacion notice; anual
yearly annual; apellido surname; aplazar postpone; aprobar approve; archivo file; asunto subject; atrasado late
overdue; aumento increase; autoridad authority; aviso notice; ayuda help; baja leave; barato cheap; beneficio benefit
profit; brecha breach; cambio change; cancelar cancel; cargo charge; carta letter; cliente customer client; cobro
collection; codigo code; compra purchase; comprador buyer; comprobar check; compromiso commitment; confianza trust;
consejo advice board; contrasena password; contratar hire; correo mail; coste cost; cuenta account; culpa fault;
cumplir comply fulfil; cuota fee instalment; dano damage; datos data; deber duty; demanda demand claim; demora delay;
denuncia complaint; derecho right; desarrollo development; descanso rest break; descuento discount; despido dismissal;
destino destination; deuda debt; devolucion return refund; devolver return; dia day; diario daily; dinero money;
direccion address management; disponible available; edad age; edificio building; ejercicio year; embalaje packaging;
empleado employee; empleo employment; empresa company; encargo order assignment; enfermedad illness sick; ensayo test;
entrega delivery; entregar deliver; envio shipment; equipo team equipment; error mistake; escrito written writing;
estado state status; etiqueta label; exigir demand require; factura invoice; falta lack fault; fecha date; fianza
deposit bond; firma signature; firmado signed; firmar sign; fondo fund; formacion training; fuerza force; funcionar
work; ganancia gain; garantia warranty guarantee; gasto expense; gerente manager; gestion management; grave serious;
guardar keep; hora hour; horario schedule; hoy today; huelga strike; impago default; importe amount; impuesto tax;
incendio fire; incumplimiento breach; informe report; ingreso income; inicio start beginning; inventario stock; jefe
head boss manager; jornada day; jubilacion retirement; juez judge; juzgado court; lengua language; ley law; licencia
leave licence; limpieza cleaning; llave key; lugar place; luz light electricity; maternidad maternity; mensual
monthly; mercancia goods; mes month; moroso late; multa fine; nacimiento birth; negocio business; nivel level; nombre
name; nomina payroll; norma rule standard; nota note; noticia news; obra work; oferta offer bid; oficina office;
olvidar forget; pagar pay; pago payment; pais country; parte party part; pedido order; pedir request; peligro danger;
penalizacion penalty; perdida loss; permiso permission leave; permitido allowed; persona person; plantilla staff;
plazo deadline term period; poder power; preaviso notice; precio price; premio award; presentar submit; prestamo loan;
presupuesto budget; proveedor provider supplier vendor; prueba test proof evidence; puesto position; queja complaint;
rebaja discount; recargo surcharge; recibir receive; recibo receipt; reclamacion claim complaint; recurso appeal
resource; red network; reembolso refund reimbursement; regla rule; reglamento regulation; renuncia waiver resignation;
rescision termination; resolucion termination; respuesta answer response; retraso delay late; reunion meeting; riesgo
risk; robo theft; salario salary wage; salida exit departure; salud health; secreto secret; sede office site;
seguridad security safety; seguro insurance safe; sello stamp; semana week; semanal weekly; solicitar request apply;
solicitud request application; subida rise; sueldo salary; suma sum; superficie area; tamano size; tarea task; tarifa
rate fee; tarjeta card; tasa rate fee; tipo type kind; tope cap limit; trabajador worker employee; trabajar work;
trabajo work job; traslado transfer; tribunal court; trimestre quarter; uso use; vacaciones holidays holiday vacation;
valor value; vencimiento expiry due maturity; venta sale; verano summer; viaje travel trip; vigencia term validity;
vigente force; vigilar guard; vivienda housing; voluntad will; zona area zone; asegurar insure; borrar delete; contar
count; descontar deduct; dormir sleep; fumar smoke; ganar earn; llevar wear; renovar renew; revisar review; servir serve
"""

# Each line is of one meaning: Spanish words | English words. Kept narrow: what is wide makes passages answer what they
# do not.
_SYNONYMS = """
hotel alojamiento hospedaje | hotel accommodation lodging
ceo director consejero | ceo director
cto tecnologia | cto technology
cfo financiero | cfo finance
vacaciones | holidays vacation
multa penalizacion sancion recargo | penalty fine surcharge
especial particular | special particular
excepcion excepcional salvedad | exception exceptional
horario jornada | schedule hours
sueldo salario nomina remuneracion | salary wage pay payroll remuneration
empleado trabajador plantilla | employee worker staff
despido cese | dismissal layoff
teletrabajo remoto | telework remote
ordenador portatil | computer laptop
movil telefono | phone mobile
contrasena clave | password
factura recibo | invoice bill receipt
proveedor suministrador | supplier vendor provider
cliente comprador | customer client buyer
tope limite maximo | cap limit ceiling maximum
minimo | minimum least
plazo termino | deadline term
preaviso antelacion aviso | notice
rescindir resolver cancelar | terminate cancel
finalizar terminar acabar | finish
prorroga renovacion | extension renewal
retraso demora mora tardanza | delay lateness
averia fallo | failure breakdown fault
reparacion arreglo | repair
garantia aval | warranty guarantee
seguro poliza | insurance
subida aumento incremento | increase rise raise
bajada reduccion descenso | decrease reduction cut
descuento rebaja bonificacion | discount rebate
coste gasto | cost expense expenditure
pagar abonar | pay settle
reembolso devolucion | refund reimbursement return
comida almuerzo | meal lunch
desplazamiento viaje | travel trip journey
coche vehiculo automovil | car vehicle
tren ferrocarril | train rail railway
avion vuelo | plane flight airplane
aparcamiento | parking
regalo obsequio | gift present
queja reclamacion | complaint claim
comprar adquirir | buy purchase acquire
vender venta | sell sale
contratar contratacion | hire recruit recruitment
formacion curso capacitacion | training course
baja enfermedad | sick illness
confidencial secreto reservado | confidential secret
aprobar autorizar visto | approve authorise authorize
informar notificar comunicar avisar | report notify inform
entregar suministrar | deliver supply
anular invalidar | annul void
sede oficina delegacion | office headquarters
prohibido vedado | forbidden prohibited banned
permitido | allowed permitted
obligatorio preceptivo | mandatory compulsory obligatory required
gratis gratuito | free
"""


@functools.cache
def _counterparts() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for spanish, *english in _entries():
        found.setdefault(stem(spanish), english[0])
        for word in english:
            found.setdefault(stem(word), spanish)
    return found


def counterpart(word: str) -> str:
    """A word of the other language for a stem, without accents; empty when the word is not listed."""
    return _counterparts().get(word, "")


def _entries() -> list[list[str]]:
    return [list(map(str, entry.split())) for entry in _PAIRS.replace("\n", " ").split(";")]


def _general() -> list[str]:
    """Lines of everyday words that mean the same."""
    text = (resources.files(__package__ or "") / "general_words.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@functools.cache
def _known() -> Mapping[str, frozenset[str]]:
    pairs: dict[str, set[str]] = {}
    for entry in _entries():
        spanish, *english = map(stem, entry)
        pairs.setdefault(spanish, set()).update(english)
        for word in english:
            pairs.setdefault(word, set()).add(spanish)
    for line in (*_SYNONYMS.strip().splitlines(), *_general()):
        group = {stem(word) for word in line.replace("|", " ").split()}
        for word in group:
            pairs.setdefault(word, set()).update(group - {word})
    return {word: frozenset(others) for word, others in pairs.items()}


def equivalents(word: str) -> frozenset[str]:
    """Stems that mean the same as a stem, in either language; empty when the word is not listed."""
    return _known().get(word, frozenset())


@functools.cache
def _sides() -> Mapping[tuple[str, str, str], frozenset[str]]:
    """The stems of one meaning with a stem, by the language of the stem and that of theirs."""
    found: dict[tuple[str, str, str], set[str]] = {}
    lines = [f"{spanish} | {' '.join(english)}" for spanish, *english in _entries()]
    for line in (*lines, *_SYNONYMS.strip().splitlines(), *_general()):
        sides = {
            spoken: {stem(word) for word in side.split()}
            for spoken, side in zip(("es", "en"), line.split("|"), strict=True)
        }
        for spoken, own in sides.items():
            for read, others in sides.items():
                for word in own:
                    found.setdefault((spoken, word, read), set()).update(others - {word})
    return {key: frozenset(others) for key, others in found.items()}


def of_one_meaning(word: str, spoken: str, read: str) -> frozenset[str]:
    """Stems of the language `read` that mean the same as a stem of the language `spoken`, each `es` or `en`.

    Stricter than `equivalents`, for which the `fund` of English is also the beginning of `fundado`.
    """
    return _sides().get((spoken, word, read), frozenset())


@functools.cache
def _same_language() -> Mapping[tuple[str, str], tuple[str, ...]]:
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for line in _SYNONYMS.strip().splitlines():
        for spoken, side in zip(("es", "en"), line.split("|"), strict=True):
            words = side.split()
            for word in words:
                found.setdefault((spoken, word), tuple(one for one in words if one != word))
    return found


def synonyms(word: str, spoken: str) -> tuple[str, ...]:
    """Words of the same meaning in the language `spoken` (`es`, `en`) for a folded word or its plural.

    By the word and not by its stem: `contrato` is no `contratar`.
    """
    forms = (word, word.removesuffix("s"), word.removesuffix("es"), re.sub("ies$", "y", word))
    return next((known for form in forms if (known := _same_language().get((spoken, form)))), ())
