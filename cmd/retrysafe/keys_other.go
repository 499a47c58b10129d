//go:build !unix

package main

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: who may read a file is inherited from its folder here.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// syncFolder does nothing: a folder cannot be synced here.
func syncFolder(string) error { return nil }
