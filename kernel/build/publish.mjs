// Publishes a build: the build's folder first, then the files at the stable paths, each by a rename.
import {
  existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, utimesSync,
  writeFileSync
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { ENTRIES } from './bundle.mjs'
import { licences } from './licences.mjs'
import { dist, linkAt, linkBin, root, sources } from './paths.mjs'

/** Files to copy unchanged, such as models, cards and data. */
const DATA =
  /\.(onnx|onnx\.json|gguf|yaml|bin|dat|gz|NOTICE\.txt)$|LICENCE\.txt$|^(kernel\/cli|plugins\/packages)\/data/
/** Names of build folders: finished, or left by a killed build. */
const BUILD = /^([0-9a-f]{16}|\.making-\d+)$/
/** Number of earlier builds to keep in addition to those in use. */
const KEPT = process.platform === 'linux' ? 2 : 8

/** Writes a file atomically. */
function put (path, contents, mode = 0o644) {
  const aside = `${path}.${process.pid}`
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(aside, contents, { mode })
  renameSync(aside, path)
}

/** Writes dist/NAME and points the stable paths at it. */
export async function publish (name, { outputFiles, metafile }, page) {
  const making = join(dist, `.making-${process.pid}`)
  rmSync(making, { recursive: true, force: true })
  for (const { path, contents } of outputFiles) {
    put(join(making, relative(join(dist, 'build'), path)), contents)
  }
  for (const path of [...sources('plugins'), ...sources('kernel')]) {
    if (DATA.test(path)) put(join(making, path), readFileSync(join(root, path)))
  }
  for (const [path, contents] of page) put(join(making, 'plugins/dashboard/built', path), contents)
  // If the same sources were built before, keeps that folder, since processes may use it.
  if (existsSync(join(dist, name))) rmSync(making, { recursive: true })
  else renameSync(making, join(dist, name))
  utimesSync(join(dist, name), new Date(), new Date())
  switchTo(name, metafile)
  linkBin()
  sweep(name)
}

/** Points the stable paths at a build. `current` comes last, so that once it names a build, all paths do. */
function switchTo (name, { inputs, outputs }) {
  put(join(dist, 'LICENCES.txt'), licences(root, Object.keys(inputs)))
  // The npm package must contain this build only.
  put(join(dist, '.npmignore'), ['/*', '!/kernel', '!/plugins', '!/LICENCES.txt', `!/${name}`, ''].join('\n'))
  // Maps outputs to sources, for the test that limits which sources a verb loads.
  put(join(dist, 'sources.json'), JSON.stringify(Object.fromEntries(Object.entries(outputs)
    .filter(([file]) => file.endsWith('.js'))
    .map(([file, output]) => [file.replace('dist/build', name), Object.keys(output.inputs)]))))
  for (const entry of ENTRIES.toReversed()) {
    const to = `${relative(dirname(entry), '.')}/${name}/${entry}.js`
    const isMain = entry === 'kernel/cli/main'
    const more = outputs[`dist/build/${entry}.js`].exports.includes('default')
      ? `export { default } from '${to}'\n` : ''
    put(join(dist, `${entry}.js`), isMain ? program(name, to) : `export * from '${to}'\n${more}`,
      isMain ? 0o755 : 0o644)
  }
  symlinkSync(name, join(dist, `.aside-${process.pid}`))
  renameSync(join(dist, `.aside-${process.pid}`), join(dist, 'current'))
}

/** Text of dist/kernel/cli/main.js. The Node option keeps SIGUSR1 from opening the inspector, see ./svc. */
const program = (name, to) => `#!/usr/bin/env -S node --inspect-port=[fe80::]:9229
import { openSync } from 'node:fs'
// Later builds do not delete a folder that a process has open.
try { openSync(new URL('../../${name}', import.meta.url)) } catch {}
await import('${to}')
`

/** Removes earlier builds that are not in use. */
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

/** Paths that processes on this machine have open; paths of other users' processes may be missing. */
const heldOpen = () => new Set(names('/proc').filter((pid) => /^\d+$/.test(pid)).flatMap((pid) =>
  names(`/proc/${pid}/fd`).map((fd) => linkAt(`/proc/${pid}/fd/${fd}`))))
