// Package frameworks holds the guard to working inside the routers that people use. They are dependencies of this module
// alone.
package frameworks
