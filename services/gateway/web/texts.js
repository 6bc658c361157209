// The page's words in Spanish and English.

const TEXTS = {
  en: {
    ask: "Ask", documents: "Documents", limits: "Limits", language: "Cambiar a español", other: "ES",
    keyLabel: "API key", keyHint: "It stays in this tab. `make up` prints one.", enter: "Enter", forgetKey: "Forget the key",
    questionPlaceholder: "What do you want to know?", send: "Ask", stop: "Stop", newConversation: "New conversation",
    files: "Files (PDF, Office, HTML, text, mail, code …)", collection: "Collection", upload: "Upload", title: "Title", status: "Status",
    more: "Show more", close: "Close", sources: "Sources", remove: "Delete", reallyRemove: "Delete “{}”?", sent: "{} files sent",
    steps: "{} look-ups", step: "1 look-up", fromCache: "from the cache", old: "{} old", askedAs: "asked before as “{}”", rows: "{} rows", row: "1 row", page: "page {}", params: "Parameters", result: "Result",
    partial: "Partial answer: {}", refused: "Nothing was found to answer from.", without: "Without {}: {}",
    stopped: "Stopped.", lost: "The connection was lost. Is sabueso running?", tokens: "tokens", notFound: "The source is gone.",
    untrusted: "Text from the web, as it was found.", none: "unlimited", used: "{} of {} used",
    tenant: "Tenant", requests_per_minute: "Requests per minute", tokens_per_minute: "Tokens per minute",
    concurrent_requests: "Requests at the same time", body_bytes: "Size of a request (bytes)", daily_tokens: "Tokens per day",
    queued: "queued", parsing: "reading", embedding: "embedding", ready: "ready", failed: "failed", cancelled: "cancelled",
    examples: [
      "How many contracts above 100k€ did we sign in 2025 with EU providers, and which special conditions recur?",
      "What does the holiday policy say about carrying days over?",
      "Total amount of contracts per region in 2025",
    ],
  },
  es: {
    ask: "Preguntar", documents: "Documentos", limits: "Límites", language: "Switch to English", other: "EN",
    keyLabel: "Clave de API", keyHint: "Se queda en esta pestaña. `make up` imprime una.", enter: "Entrar", forgetKey: "Olvidar la clave",
    questionPlaceholder: "¿Qué quieres saber?", send: "Preguntar", stop: "Parar", newConversation: "Conversación nueva",
    files: "Archivos (PDF, Office, HTML, texto, correo, código …)", collection: "Colección", upload: "Subir", title: "Título", status: "Estado",
    more: "Ver más", close: "Cerrar", sources: "Fuentes", remove: "Borrar", reallyRemove: "¿Borrar «{}»?", sent: "{} archivos enviados",
    steps: "{} consultas", step: "1 consulta", fromCache: "de la caché", old: "de hace {}", askedAs: "preguntado antes como «{}»", rows: "{} filas", row: "1 fila", page: "página {}", params: "Parámetros", result: "Resultado",
    partial: "Respuesta parcial: {}", refused: "No se encontró nada con lo que responder.", without: "Sin {}: {}",
    stopped: "Parado.", lost: "Se perdió la conexión. ¿Está sabueso en marcha?", tokens: "tokens", notFound: "La fuente ya no está.",
    untrusted: "Texto de la web, tal como se encontró.", none: "sin límite", used: "{} de {} usados",
    tenant: "Inquilino", requests_per_minute: "Peticiones por minuto", tokens_per_minute: "Tokens por minuto",
    concurrent_requests: "Peticiones a la vez", body_bytes: "Tamaño de una petición (bytes)", daily_tokens: "Tokens por día",
    queued: "en cola", parsing: "leyendo", embedding: "vectorizando", ready: "listo", failed: "fallido", cancelled: "cancelado",
    examples: [
      "¿Cuántos contratos de más de 100k€ firmamos en 2025 con proveedores de la UE, y qué condiciones especiales se repiten?",
      "¿Qué dice la política de viajes sobre el alojamiento?",
      "Importe total de los contratos por región en 2025",
    ],
  },
};

export const language = {
  get code() { return localStorage.getItem("language") ?? (navigator.language.startsWith("es") ? "es" : "en"); },
  toggle() { localStorage.setItem("language", this.code === "es" ? "en" : "es"); },
};

export function text(name, ...values) {
  let result = TEXTS[language.code][name] ?? name;
  for (const value of values) result = typeof result === "string" ? result.replace("{}", () => String(value)) : result;
  return result;
}

// "2 min old": in the unit that gives a small number.
export function age(seconds) {
  const [unit, size] = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]].find(([, size]) => seconds >= size) ?? ["second", 1];
  return text("old", new Intl.NumberFormat(language.code, { style: "unit", unit, unitDisplay: "short" }).format(Math.round(seconds / size)));
}

export const counted = (one, many, count) => (count === 1 ? text(one) : text(many, count));

export function translatePage() {
  document.documentElement.lang = language.code;
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = text(node.dataset.text);
  for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = text(node.dataset.placeholder);
  for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", text(node.dataset.label));
}
