-- The demo company's tables. What the reader may see is said by tenant_files/demo.yaml, not here.

CREATE TABLE regions (
  code text PRIMARY KEY,
  name text NOT NULL,
  name_es text NOT NULL
);

CREATE TABLE providers (
  id integer PRIMARY KEY,
  name text NOT NULL UNIQUE,
  country text NOT NULL,
  region_code text NOT NULL REFERENCES regions (code),
  -- Not listed for the tenant: shows that rights go by column.
  tax_id text NOT NULL
);

-- Not listed for the tenant: shows that a table next door stays shut.
CREATE TABLE bank_accounts (
  provider_id integer PRIMARY KEY REFERENCES providers (id),
  iban text NOT NULL
);

CREATE TABLE contracts (
  id text PRIMARY KEY CHECK (id ~ '^CT-\d{4}-\d{4}$'),
  title text NOT NULL,
  provider_id integer NOT NULL REFERENCES providers (id),
  amount numeric(14, 2) NOT NULL CHECK (amount > 0),
  signed_on date,
  category text NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'ended', 'draft')),
  CHECK ((signed_on IS NULL) = (status = 'draft'))
);
CREATE INDEX ON contracts (provider_id);
CREATE INDEX ON contracts (signed_on);

CREATE TABLE payments (
  id integer PRIMARY KEY,
  contract_id text NOT NULL REFERENCES contracts (id),
  amount numeric(14, 2) NOT NULL CHECK (amount > 0),
  paid_on date,
  status text NOT NULL CHECK (status IN ('paid', 'pending', 'late')),
  CHECK ((paid_on IS NULL) = (status <> 'paid'))
);
CREATE INDEX ON payments (contract_id);
