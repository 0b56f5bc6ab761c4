// Runs test files one after the other in this process:
// node together.mjs FILE ...
// Loading the product takes longer than most files, and happens only once here. A comment with the name and
// time of each file follows its output, so that the runner can separate the files.
import { performance } from 'node:perf_hooks'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

// Removes the file names from process.argv, from which tap would name its temporary folders.
const files = process.argv.splice(2)
const root = process.cwd()
const { default: t } = await import('tap')

const { test } = t
const [open, teardowns] = [[], []]
t.test = (...args) => {
  const ended = test.apply(t, args)
  open.push(ended)
  return ended
}
// Runs a file's teardowns at the end of the file. tap would also end a root test with a teardown as soon as
// it is idle, and skip the tests of the following files.
t.teardown = (fn) => { teardowns.push(fn) }

for (const file of files) {
  const started = performance.now()
  process.chdir(root)
  t.testdirName = resolve('.tap/fixtures', file.replaceAll('/', '-'))
  const { href } = pathToFileURL(resolve(file))
  await import(href).catch((error) => { t.fail(`${file} cannot be loaded`, error) })
  while (open.length > 0) await Promise.allSettled(open.splice(0))
  for (const fn of teardowns.splice(0).reverse()) await fn()
  t.comment(`end of ${file} after ${Math.round(performance.now() - started)} ms`)
}
