package idemhttp

// MaxTenants is how many scopes a guard remembers for their quotas.
const MaxTenants = maxTenants

// Tenants returns how many it remembers now.
func Tenants(m *Middleware) int {
	m.o.Quotas.mu.Lock()
	defer m.o.Quotas.mu.Unlock()
	return len(m.o.Quotas.tenants)
}
