-- The tables of the small tenants: a shop's customers and orders.

CREATE TABLE customers (
  id integer PRIMARY KEY,
  name text NOT NULL,
  city text NOT NULL
);

CREATE TABLE orders (
  id integer PRIMARY KEY,
  customer_id integer NOT NULL REFERENCES customers (id),
  product text NOT NULL,
  quantity integer NOT NULL CHECK (quantity > 0),
  total numeric(10, 2) NOT NULL CHECK (total > 0),
  ordered_on date NOT NULL
);
CREATE INDEX ON orders (customer_id);
