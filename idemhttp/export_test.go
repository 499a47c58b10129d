package idemhttp

// MaxTenants is how many scopes a guard remembers for their quotas.
const MaxTenants = maxTenants

// Tenants returns how many it remembers now.
func Tenants(m *Middleware) int {
	m.quotas.mu.Lock()
	defer m.quotas.mu.Unlock()
	return len(m.quotas.tenants)
}
