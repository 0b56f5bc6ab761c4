// Lays a build down: its folder first, then, one rename after the other, the files that lead to it.
import {
  existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, utimesSync,
  writeFileSync
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { ENTRIES } from './bundle.mjs'
import { licences } from './licences.mjs'
import { dist, linkAt, linkBin, root, sources } from './paths.mjs'

/** What is not TypeScript: models, cards, data. */
const DATA =
  /\.(onnx|onnx\.json|yaml|bin|dat|gz|NOTICE\.txt)$|LICENCE\.txt$|\/model\/[^/]+\.json$|^kernel\/cli\/data/
/** A build's folder: finished, of `npm run dev`, or left by a build that was killed. */
const BUILD = /^([0-9a-f]{16}|dev-\d+-\d+|\.making-\d+)$/
/** Builds that stay beside the newest one and those in use. */
const KEPT = process.platform === 'linux' ? 2 : 8

/** Makes the folder dist/NAME and has the stable paths lead to it. */
export async function publish (name, { outputFiles, metafile }, page) {
  const making = join(dist, `.making-${process.pid}`)
  rmSync(making, { recursive: true, force: true })
  const put = (path, contents) => {
    mkdirSync(dirname(join(making, path)), { recursive: true })
    writeFileSync(join(making, path), contents)
  }
  for (const { path, contents } of outputFiles) put(relative(join(dist, 'build'), path), contents)
  for (const path of [...sources('plugins'), ...sources('kernel')]) {
    if (DATA.test(path)) put(path, readFileSync(join(root, path)))
  }
  for (const [path, contents] of page) put(join('plugins/dashboard/built', path), contents)
  // Processes may run from an earlier build of the same sources.
  if (existsSync(join(dist, name))) rmSync(making, { recursive: true })
  else renameSync(making, join(dist, name))
  utimesSync(join(dist, name), new Date(), new Date())
  switchTo(name, metafile)
  linkBin()
  sweep(name)
}

/** Has the stable paths lead to a build; `current` comes last, so that it stands for all of them. */
function switchTo (name, { inputs, outputs }) {
  const replace = (path, write) => {
    const aside = join(dist, `.aside-${process.pid}`)
    write(aside)
    mkdirSync(dirname(join(dist, path)), { recursive: true })
    renameSync(aside, join(dist, path))
  }
  const text = (path, contents, mode = 0o644) => {
    replace(path, (aside) => { writeFileSync(aside, contents, { mode }) })
  }
  text('LICENCES.txt', licences(root, Object.keys(inputs)))
  // What a package has of dist: this build, and what leads to it.
  text('.npmignore', ['/*', '!/kernel', '!/plugins', '!/LICENCES.txt', `!/${name}`, ''].join('\n'))
  // Which sources are in which file, for the test of what a verb loads.
  text('sources.json', JSON.stringify(Object.fromEntries(Object.entries(outputs)
    .filter(([file]) => file.endsWith('.js'))
    .map(([file, output]) => [file.replace('dist/build', name), Object.keys(output.inputs)]))))
  for (const entry of ENTRIES.toReversed()) {
    const to = `${relative(dirname(entry), '.')}/${name}/${entry}.js`
    const more = outputs[`dist/build/${entry}.js`].exports.includes('default')
      ? `export { default } from '${to}'\n` : ''
    if (entry === 'kernel/cli/main') text(`${entry}.js`, program(name, to), 0o755)
    else text(`${entry}.js`, `export * from '${to}'\n${more}`)
  }
  replace('current', (aside) => { symlinkSync(name, aside) })
}

/** The file at the stable path of the program. */
const program = (name, to) => `#!/usr/bin/env node
import { openSync } from 'node:fs'
// A folder that a process has open is in use: later builds leave it there.
try { openSync(new URL('../../${name}', import.meta.url)) } catch {}
await import('${to}')
`

/** Removes earlier builds that no process uses. */
function sweep (name) {
  const age = (one) => -statSync(join(dist, one)).mtimeMs
  const old = readdirSync(dist).filter((one) => BUILD.test(one) && one !== name)
    .sort((a, b) => age(a) - age(b)).slice(KEPT)
  const used = old.length === 0 ? new Set() : heldOpen()
  for (const one of old) {
    if (!used.has(join(dist, one))) rmSync(join(dist, one), { recursive: true, force: true })
  }
}

function names (folder) {
  try { return readdirSync(folder) } catch { return [] }
}

/** What processes of this machine have open, as far as this user sees. */
const heldOpen = () => new Set(names('/proc').filter((pid) => /^\d+$/.test(pid)).flatMap((pid) =>
  names(`/proc/${pid}/fd`).map((fd) => linkAt(`/proc/${pid}/fd/${fd}`))))
