-- Money is an integer amount in minor units beside its currency, never a float.
-- A charge is never deleted: the slip numbers run 1, 2, 3 without a gap.
create table charges (
    slip     integer primary key,
    id       text    not null unique,
    customer text    not null,
    amount   integer not null check (amount > 0),
    currency text    not null check (length(currency) = 3),
    state    text    not null check (state in ('authorized', 'captured', 'refunded')),
    memo     text    not null,
    order_no text    unique, -- null when the caller gave none: nulls never clash
    created  text    not null
) strict;

create index charges_by_customer on charges (customer, slip);
create index charges_by_memo on charges (memo, slip);

-- A charge names its customer without referring to this table: whoever may be
-- charged need not be kept here, and forgetting a customer keeps the books.
create table customers (
    id    text not null primary key,
    name  text not null,
    email text not null
) strict, without rowid;

-- Whose file this is ('pays' in ASCII) and which shape it has: the two are
-- written in the transaction that makes the tables, so a file has all or none.
pragma application_id = 1885436275;
pragma user_version = 1;
