"""A generated schema of 300 tables with 20 columns each, and questions with the tables that an answer needs."""

import random

from services.runtime.tenants import SqlSource
from services.sql_tool.allowlist import AllowedTable, of
from services.sql_tool.catalog import Catalog, Described

TABLES, COLUMNS = 300, 20
# name: (English, Spanish, tables that it refers to, columns of its own with English, Spanish and values)
CORE: dict[str, tuple[str, str, list[str], dict[str, tuple[str, str, dict[str, str]]]]] = {
    "customers": (
        "Customers",
        "clientes, compradores",
        [],
        {
            "segment": ("Segment", "segmento", {"retail": "retail, minorista", "wholesale": "wholesale, mayorista"}),
            "country": ("Country", "país", {"ES": "Spain; España", "FR": "France; Francia"}),
        },
    ),
    "orders": (
        "Sales orders",
        "pedidos de venta",
        ["customers"],
        {
            "ordered_on": ("Day of the order", "fecha del pedido", {}),
            "total": ("Order total", "importe total del pedido", {}),
        },
    ),
    "order_lines": (
        "Lines of sales orders",
        "líneas de pedido",
        ["orders", "products"],
        {"quantity": ("Pieces ordered", "unidades pedidas", {})},
    ),
    "products": (
        "Products of the catalogue",
        "productos, artículos",
        ["product_categories"],
        {"list_price": ("List price", "precio de tarifa", {})},
    ),
    "product_categories": ("Categories of products", "categorías de producto", [], {}),
    "suppliers": (
        "Suppliers, vendors",
        "proveedores, suministradores",
        [],
        {"rating": ("Quality rating", "valoración de calidad", {})},
    ),
    "purchase_orders": ("Purchase orders to suppliers", "pedidos de compra, compras", ["suppliers"], {}),
    "invoices": (
        "Invoices sent to customers",
        "facturas emitidas",
        ["customers", "orders"],
        {
            "due_on": ("Due day", "fecha de vencimiento", {}),
            "status": ("State", "estado", {"paid": "paid; pagada, cobrada", "overdue": "overdue; vencida, impagada"}),
        },
    ),
    "payments": ("Payments received", "pagos recibidos, cobros", ["invoices"], {}),
    "employees": (
        "Employees, staff",
        "empleados, plantilla, trabajadores",
        ["departments"],
        {
            "hired_on": ("Hiring day", "fecha de contratación, alta", {}),
            "salary": ("Yearly salary", "salario anual, sueldo", {}),
        },
    ),
    "departments": ("Departments", "departamentos", [], {"budget": ("Yearly budget", "presupuesto anual", {})}),
    "leave_requests": (
        "Requests of holidays and leave",
        "solicitudes de vacaciones y permisos",
        ["employees"],
        {
            "kind": (
                "Kind of leave",
                "tipo de permiso",
                {"sick": "sick leave; baja médica", "holiday": "holiday; vacaciones"},
            )
        },
    ),
    "timesheets": ("Hours worked", "horas trabajadas, partes de horas", ["employees", "projects"], {}),
    "projects": ("Projects", "proyectos", ["customers"], {"margin": ("Margin", "margen", {})}),
    "warehouses": ("Warehouses", "almacenes", [], {"city": ("City", "ciudad", {})}),
    "stock_levels": (
        "Stock of each product in each warehouse",
        "existencias, inventario",
        ["products", "warehouses"],
        {},
    ),
    "shipments": (
        "Shipments to customers",
        "envíos, expediciones",
        ["orders", "carriers"],
        {"delivered_on": ("Delivery day", "fecha de entrega", {})},
    ),
    "carriers": ("Carriers, haulage companies", "transportistas", [], {}),
    "support_tickets": (
        "Support tickets, complaints",
        "incidencias, reclamaciones, tickets de soporte",
        ["customers", "employees"],
        {"priority": ("Priority", "prioridad", {"urgent": "urgent; urgente"})},
    ),
    "contracts": (
        "Contracts with suppliers",
        "contratos con proveedores",
        ["suppliers"],
        {"signed_on": ("Signature day", "fecha de firma", {}), "penalty": ("Penalty clause", "penalización", {})},
    ),
    "marketing_campaigns": (
        "Marketing campaigns",
        "campañas de marketing, publicidad",
        [],
        {"spend": ("Money spent", "gasto, inversión", {})},
    ),
    "campaign_leads": (
        "Leads won by a campaign",
        "contactos captados, leads",
        ["marketing_campaigns", "customers"],
        {},
    ),
    "bank_accounts": ("Bank accounts of the company", "cuentas bancarias", [], {}),
    "bank_transactions": ("Movements of bank accounts", "movimientos bancarios", ["bank_accounts"], {}),
    "fixed_assets": (
        "Fixed assets",
        "inmovilizado, activos fijos",
        ["departments"],
        {"depreciation": ("Depreciation", "amortización", {})},
    ),
    "vehicles": (
        "Vehicles of the fleet",
        "vehículos, flota, furgonetas",
        ["employees"],
        {"mileage": ("Mileage", "kilometraje", {})},
    ),
    "fuel_purchases": ("Fuel bought", "repostajes, combustible, gasolina", ["vehicles"], {}),
    "training_courses": ("Training courses", "cursos de formación", [], {}),
    "course_enrolments": (
        "Who attends which course",
        "inscripciones a cursos, asistentes",
        ["training_courses", "employees"],
        {},
    ),
    "quality_inspections": (
        "Quality inspections of products",
        "inspecciones de calidad, controles",
        ["products", "employees"],
        {"result": ("Result", "resultado", {"failed": "failed; rechazada, no conforme"})},
    ),
    "returns": (
        "Goods returned by customers",
        "devoluciones",
        ["order_lines"],
        {"reason": ("Reason", "motivo", {"damaged": "damaged; dañado, roto"})},
    ),
    "machines": ("Machines of the plants", "máquinas, maquinaria", ["plants"], {}),
    "plants": ("Production plants", "plantas, fábricas", [], {}),
    "maintenance_orders": (
        "Repairs and upkeep of machines",
        "órdenes de mantenimiento, averías, reparaciones",
        ["machines"],
        {"downtime_hours": ("Hours of standstill", "horas de parada", {})},
    ),
    "production_runs": (
        "Production runs",
        "lotes de producción, fabricación",
        ["machines", "products"],
        {"scrap": ("Scrap pieces", "piezas defectuosas, mermas", {})},
    ),
    "tax_returns": ("Tax returns", "declaraciones de impuestos, IVA", [], {"vat": ("VAT paid", "IVA pagado", {})}),
    "insurance_policies": ("Insurance policies", "pólizas de seguro", [], {"premium": ("Premium", "prima", {})}),
    "insurance_claims": ("Claims to insurers", "siniestros", ["insurance_policies"], {}),
    "web_visits": ("Visits to the web shop", "visitas a la web, sesiones", ["customers"], {}),
    "loyalty_points": ("Points of the loyalty programme", "puntos de fidelización", ["customers"], {}),
}
QUESTIONS: list[tuple[str, str]] = [
    ("How many orders did customers in Spain place last year?", "orders customers"),
    ("¿Cuántos pedidos hicieron los clientes de España el año pasado?", "orders customers"),
    ("Which products were returned most because they were damaged?", "returns order_lines products"),
    ("¿Qué artículos se devolvieron más por estar dañados?", "returns order_lines products"),
    ("Total of overdue invoices by customer segment", "invoices customers"),
    ("Importe de las facturas vencidas por segmento de cliente", "invoices customers"),
    ("Average salary by department", "employees departments"),
    ("Sueldo medio por departamento", "employees departments"),
    ("Which employees took sick leave in March?", "employees leave_requests"),
    ("¿Qué trabajadores estuvieron de baja médica en marzo?", "employees leave_requests"),
    ("Hours worked on each project", "timesheets projects"),
    ("Horas trabajadas en cada proyecto por departamento", "timesheets projects employees departments"),
    ("Stock of each product category by warehouse", "stock_levels products product_categories warehouses"),
    ("Existencias por almacén y categoría de producto", "stock_levels products product_categories warehouses"),
    ("Which carriers deliver late?", "shipments carriers"),
    ("¿Qué transportistas entregan tarde los envíos?", "shipments carriers"),
    ("Urgent complaints by customer", "support_tickets customers"),
    ("Reclamaciones urgentes por cliente", "support_tickets customers"),
    ("Contracts signed with suppliers in 2025 that have a penalty", "contracts suppliers"),
    ("¿Cuántos contratos firmamos en 2025 con proveedores con penalización?", "contracts suppliers"),
    ("Leads won per euro spent in each campaign", "marketing_campaigns campaign_leads"),
    ("Leads captados por cada euro gastado en campañas", "marketing_campaigns campaign_leads"),
    ("Fuel consumption of each vehicle", "fuel_purchases vehicles"),
    ("Gasolina repostada por furgoneta", "fuel_purchases vehicles"),
    ("Who attended the training courses on safety?", "course_enrolments training_courses employees"),
    ("¿Quién asistió a los cursos de formación?", "course_enrolments training_courses employees"),
    ("Products with failed quality inspections", "quality_inspections products"),
    ("Productos con inspecciones de calidad rechazadas", "quality_inspections products"),
    ("Hours of standstill by plant", "maintenance_orders machines plants"),
    ("Horas de parada de las máquinas por fábrica", "maintenance_orders machines plants"),
    ("Scrap of each production run by product", "production_runs products"),
    ("Piezas defectuosas por lote de producción y artículo", "production_runs products"),
    ("Insurance claims and premiums", "insurance_claims insurance_policies"),
    ("Siniestros y primas de las pólizas de seguro", "insurance_claims insurance_policies"),
    (
        "Which customers bought products of the category toys?",
        "customers orders order_lines products product_categories",
    ),
    (
        "¿Qué clientes compraron productos de la categoría juguetes?",
        "customers orders order_lines products product_categories",
    ),
    ("Purchases from each supplier", "purchase_orders suppliers"),
    ("Compras a cada proveedor", "purchase_orders suppliers"),
    ("Payments received for invoices of 2025", "payments invoices"),
    ("Cobros recibidos de facturas de 2025", "payments invoices"),
    ("Revenue per country in the second quarter", "orders customers"),
    ("Which machines broke down most often?", "maintenance_orders machines"),
    ("Top ten suppliers by volume of purchases", "suppliers purchase_orders"),
    ("How much did we spend on insurance premiums?", "insurance_policies"),
    ("Who drives the vehicle with the highest mileage?", "vehicles employees"),
    ("Average days between order and delivery", "orders shipments"),
    ("Products below minimum stock in Valencia", "products stock_levels warehouses"),
    ("Which departments exceeded their budget?", "departments"),
    ("Visits to the web shop by customers with loyalty points", "web_visits loyalty_points customers"),
    ("Bank movements of the last month per account", "bank_transactions bank_accounts"),
    ("¿Qué máquinas se averiaron más?", "maintenance_orders machines"),
    ("Los diez proveedores con más compras", "suppliers purchase_orders"),
    ("¿Cuánto gastamos en primas de seguros?", "insurance_policies"),
    ("¿Quién conduce el vehículo con más kilometraje?", "vehicles employees"),
    ("Días medios entre pedido y entrega", "orders shipments"),
    ("¿Qué departamentos superaron su presupuesto?", "departments"),
    ("Visitas a la web de clientes con puntos de fidelización", "web_visits loyalty_points customers"),
    ("Movimientos bancarios del último mes por cuenta", "bank_transactions bank_accounts"),
    ("Amortización de los activos fijos por departamento", "fixed_assets departments"),
    ("¿Cuánto IVA pagamos en 2024?", "tax_returns"),
]
KINDS = [
    ("archive", "Archived", "archivo, histórico"),
    ("staging", "Imported, not checked", "carga previa"),
    ("audit", "Changes of", "cambios"),
    ("config", "Settings of", "configuración"),
    ("monthly", "Monthly totals of", "totales mensuales de"),
    ("forecast", "Forecast of", "previsión"),
    ("legacy", "Old system's", "sistema antiguo"),
]
TOPICS = [
    ("visitors", "visitors", "visitantes"),
    ("licences", "licences", "licencias"),
    ("permits", "building permits", "permisos de obra"),
    ("meters", "electricity meters", "contadores"),
    ("tenders", "tenders", "licitaciones"),
    ("grants", "public grants", "subvenciones"),
    ("samples", "laboratory samples", "muestras"),
    ("recipes", "recipes", "recetas"),
    ("menus", "canteen menus", "menús"),
    ("rooms", "meeting rooms", "salas"),
    ("badges", "access badges", "tarjetas de acceso"),
    ("alarms", "alarms", "alarmas"),
    ("sensors", "sensors", "sensores"),
    ("surveys", "surveys", "encuestas"),
    ("routes", "routes", "rutas"),
    ("parcels", "parcels", "paquetes"),
    ("leases", "leases", "alquileres"),
    ("loans", "loans", "préstamos"),
    ("shares", "shares", "acciones"),
    ("donations", "donations", "donaciones"),
    ("events", "events", "eventos"),
    ("speakers", "speakers", "ponentes"),
    ("books", "books", "libros"),
    ("patents", "patents", "patentes"),
    ("trials", "clinical trials", "ensayos"),
    ("drugs", "drugs", "fármacos"),
    ("patients", "patients", "pacientes"),
    ("species", "species", "especies"),
    ("wells", "wells", "pozos"),
    ("cables", "cables", "cables"),
    ("antennas", "antennas", "antenas"),
    ("domains", "internet domains", "dominios"),
    ("servers", "servers", "servidores"),
    ("backups", "backups", "copias de seguridad"),
    ("incidents", "security incidents", "incidentes"),
    ("audits", "audits", "auditorías"),
    ("risks", "risks", "riesgos"),
]
COMMON = [
    ("status", "State", "estado"),
    ("created_at", "When created", "fecha de alta"),
    ("updated_at", "When changed", "fecha de cambio"),
    ("created_by", "Who created", "autor"),
    ("notes", "Notes", "notas"),
    ("code", "Code", "código"),
    ("name", "Name", "nombre"),
    ("amount", "Amount", "importe"),
    ("quantity", "Quantity", "cantidad"),
    ("currency", "Currency", "moneda"),
    ("year", "Year", "año"),
    ("month", "Month", "mes"),
    ("region", "Region", "región"),
    ("external_ref", "Reference elsewhere", "referencia externa"),
    ("is_active", "In use", "activo"),
    ("owner", "Owner", "responsable"),
    ("kind", "Kind", "tipo"),
    ("priority_level", "Level", "nivel"),
    ("source_system", "Source system", "sistema de origen"),
    ("batch", "Batch", "lote"),
    ("version", "Version", "versión"),
    ("comment_text", "Comment", "comentario"),
    ("start_date", "Begin", "inicio"),
    ("end_date", "End", "fin"),
]
_TYPES = ("text", "numeric(12,2)", "date", "timestamp without time zone", "integer")


def schema() -> tuple[SqlSource, Catalog]:
    """The same each time: 40 tables of a company among 260 others, some of which look like them."""
    chance = random.Random(7)
    made = {name: (f"{en} ({es})", parents, own) for name, (en, es, parents, own) in CORE.items()}
    others = [
        (f"{kind}_{topic}", f"{kind_en} {en} ({kind_es} {es})")
        for kind, kind_en, kind_es in KINDS
        for topic, en, es in TOPICS
    ]
    chance.shuffle(others)
    for kind, kind_en, kind_es in KINDS[:3]:
        for topic in chance.sample(list(CORE), 8):
            others.insert(0, (f"{kind}_{topic}", f"{kind_en} {CORE[topic][0]} ({kind_es} {CORE[topic][1]})"))
    for name, about in others[: TABLES - len(CORE)]:
        made[name] = (about, [chance.choice(list(CORE))] if chance.random() < 0.3 else [], {})
    names = list(made)
    chance.shuffle(names)
    tables, allowed, columns = {}, [], {}
    for name in names:
        about, parents, own = made[name]
        said, described = _columns(chance, parents, own)
        tables[name] = {"description": about, "columns": said}
        allowed.append(AllowedTable("public", name, tuple(said)))
        columns[f"public.{name}"] = described
    source = SqlSource.model_validate({"dsn_secret": "x", "tables": tables})
    return source, Catalog(of(allowed), columns, {}, frozenset(), "v")


def _columns(chance, parents, own):
    said = {"id": {"description": "Number (identificador)"}}
    described = [Described("id", "integer", primary_key=True)]
    for parent in parents:
        said[f"{parent}_id"] = {}
        described.append(Described(f"{parent}_id", "integer", references=("public", parent, "id")))
    for name, (en, es, values) in own.items():
        said[name] = {"description": f"{en} ({es})", "values": values}
        described.append(Described(name, "text", is_text=True))
    for name, en, es in chance.sample(COMMON, len(COMMON)):
        if name not in said and len(said) < COLUMNS:
            said[name] = {"description": f"{en} ({es})"}
            described.append(Described(name, chance.choice(_TYPES)))
    return said, described
