// Runs test files, each in a process of its own, and prints the time of each folder at the end:
//   node test/run.mjs [--jobs N] [FILE or FOLDER ...]
// What a file says in TAP is kept in .tap/test-results. tap's own runner puts three module loaders into each
// process, and they take longer than most files.
import { spawn, spawnSync } from 'node:child_process'
import {
  accessSync, closeSync, constants, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync,
  statfsSync, writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const results = join(root, '.tap/test-results')
const loader = new URL('./tools/typescript.mjs', import.meta.url).href
/** When tap ends a file and says what was open, and when the process is killed. */
const [FILE_SECONDS, KILL_SECONDS] = [240, 270]
const MEMORY_BYTES = 3 * 2 ** 30

const { values, positionals } = parseArgs({ allowPositionals: true, options: {
  jobs: { type: 'string', default: '3' }
} })

/** Test files at or below a path, relative to the root. */
function testFiles (path) {
  const from = relative(root, resolve(path))
  if (from.endsWith('.test.ts')) return [from]
  return readdirSync(join(root, from), { recursive: true, encoding: 'utf8' })
    .map((name) => join(from, name))
    .filter((name) => name.endsWith('.test.ts') && !/(^|\/)(fixtures|bench)\//.test(name)).sort()
}

/** A folder for temporary files: in memory where there is room and programs may run from it, else on disk. */
function tempFolder () {
  try {
    accessSync('/dev/shm', constants.W_OK)
    const { bavail, bsize } = statfsSync('/dev/shm')
    if (bavail * bsize < MEMORY_BYTES) throw new Error('too small')
    const folder = mkdtempSync('/dev/shm/svc-test-')
    const script = join(folder, 'try')
    writeFileSync(script, '#!/bin/sh\n', { mode: 0o700 })
    if (spawnSync(script).status === 0) return folder
    rmSync(folder, { recursive: true })
  } catch {}
  return mkdtempSync(join(tmpdir(), 'svc-test-'))
}

/** Runs one file to its end: whether it passed, and the seconds it took. */
async function run (file, job) {
  const started = performance.now()
  const out = join(results, `${file}.tap`)
  mkdirSync(dirname(out), { recursive: true })
  const [stdout, stderr] = [openSync(out, 'w'), openSync(`${out}.err`, 'w')]
  const child = spawn(process.execPath, ['--enable-source-maps', `--import=${loader}`, join(root, file)], {
    cwd: root, stdio: ['ignore', stdout, stderr],
    env: { ...process.env, TMPDIR: temp, TAP: '1', TAP_TIMEOUT: `${FILE_SECONDS}`, TAP_JOB_ID: `${job}` }
  })
  running.add(child)
  const late = setTimeout(() => child.kill('SIGKILL'), KILL_SECONDS * 1000)
  const end = await new Promise((done) => { child.on('close', (code, signal) => { done(signal ?? code) }) })
  running.delete(child)
  clearTimeout(late)
  for (const fd of [stdout, stderr]) closeSync(fd)
  const seconds = (performance.now() - started) / 1000
  console.log(`${end === 0 ? 'ok    ' : 'not ok'} ${seconds.toFixed(1).padStart(6)} s  ${file}`)
  if (end !== 0) console.log(`${failures(readFileSync(out, 'utf8'))}${readFileSync(`${out}.err`, 'utf8')}`)
  return { ok: end === 0, seconds }
}

/** The assertions of a TAP text that failed, with what is said of them, without the tests that hold them. */
function failures (text) {
  const found = text.match(/^ *not ok .*\n( *---\n[^]*?\n *\.\.\.\n)?/gm) ?? []
  return found.filter((one) => !/^ *not ok .* # time=/.test(one)).join('')
}

const all = ['test', 'kernel', 'plugins'].map((top) => join(root, top))
const files = [...new Set((positionals.length === 0 ? all : positionals).flatMap(testFiles))]
const running = new Set()
const folders = new Map()
const temp = tempFolder()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(temp, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const started = performance.now()
const queue = [...files]
const failed = []
await Promise.all(Array.from({ length: Number(values.jobs) }, async (_, job) => {
  for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
    const { ok, seconds } = await run(file, job)
    if (!ok) failed.push(file)
    const name = dirname(file).replace(/\/test$/, '')
    const sum = folders.get(name) ?? { files: 0, seconds: 0 }
    folders.set(name, { files: sum.files + 1, seconds: sum.seconds + seconds })
  }
}))
console.log('\nSeconds of all files of a folder, one after the other:')
for (const [name, { files, seconds }] of folders) {
  console.log(`${seconds.toFixed(1).padStart(8)} s  ${String(files).padStart(4)} files  ${name}`)
}
const wall = Math.round((performance.now() - started) / 1000)
console.log(`${files.length} files in ${Math.floor(wall / 60)} min ${wall % 60} s, ${failed.length} failed`)
for (const file of failed) console.log(`failed: ${file}`)
process.exitCode = failed.length === 0 ? 0 : 1
