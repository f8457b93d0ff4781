// Hello is a small program for a test of images.
package main

func main() { println("hello") }
