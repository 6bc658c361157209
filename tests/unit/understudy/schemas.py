"""Two schemas as sql_tool describes them, for the tests of the understudy."""

CONTRACTS = """Runs one read-only PostgreSQL SELECT.
CREATE TABLE regions ( -- Regions of providers (regiones)
  code text PRIMARY KEY, -- Values: 'EU' = European Union; Unión Europea, UE; 'LATAM' = Latin America; Latinoamérica
  name text -- Name (nombre)
);
CREATE TABLE providers ( -- Providers, suppliers (proveedores)
  id integer PRIMARY KEY, -- Number
  name text, -- Company name (nombre)
  country text, -- Country (país). Values: 'ES' = Spain; España; 'FR' = France; Francia
  region_code text REFERENCES regions (code) -- Region (región)
);
CREATE TABLE contracts ( -- Contracts with providers (contratos con proveedores)
  id text PRIMARY KEY, -- Contract code, such as AB-2020-17 (código)
  title text, -- Title (título)
  provider_id integer REFERENCES providers (id), -- Provider (proveedor)
  amount numeric, -- Total value (importe, valor). Unit: EUR
  signed_on date, -- Day of signature (fecha de firma)
  status text, -- State (estado). Values: 'active' = in force; vigente, activo; 'ended' = finished; terminado
  category text -- Kind (categoría). Values: 'services' = services; servicios; 'supplies' = supplies; suministros
);
CREATE TABLE payments ( -- Payments of contracts (pagos)
  id integer PRIMARY KEY, -- Number
  contract_id text REFERENCES contracts (id), -- Contract (contrato)
  amount numeric, -- Amount paid (importe pagado). Unit: EUR
  paid_on date, -- Day of payment (fecha de pago)
  status text -- State (estado). Values: 'paid' = made; pagado; 'pending' = not due yet; pendiente
);"""

GEOGRAPHY = """
CREATE TABLE state ( -- States of the country (estados)
  state_name text PRIMARY KEY, -- Name of the state (nombre)
  population integer, -- Inhabitants (población, habitantes)
  area double precision, -- Area (superficie). Unit: square miles
  capital text -- Capital city (capital)
);
CREATE TABLE city ( -- Cities (ciudades)
  city_name text, -- Name of the city (nombre)
  population integer, -- Inhabitants (población, habitantes)
  state_name text REFERENCES state (state_name) -- State (estado)
);
CREATE TABLE river ( -- Rivers (ríos)
  river_name text, -- Name (nombre)
  length integer, -- Length (longitud). Unit: km
  traverse text REFERENCES state (state_name) -- State that it crosses (estado)
);"""
