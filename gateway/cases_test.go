package gateway_test

// Which kinds of fault of a gateway these tests know stands in the names of tests and rows (GW, and of the others
// what only a proxy can show). Not tested here, and why:
//
//	GW-4  is no fault: a wish for what this package is
//	GW-5  the gateway mints no keys
//	TN-10 keys of the upstream's own are not there yet: the caller's key is forwarded as it stands
//	ST-5  trailers are dropped, in both directions; a guarded request that has some is served without them
