// Runs test files and prints the time for each folder at the end: node test/run.mjs [--all | --rest] [--jobs
// N] [--alone] [--timeout SECONDS] [FILE or FOLDER ...] Without --all it skips slow files (scenarios.mjs);
// --rest runs only those. Several files of a folder share a process, because loading the product takes longer
// than most of them; --alone gives each a process. The TAP output of a file is stored in .tap/test-results.
// tap's own runner starts a process for each file and three module loaders in each process.
import { spawn, spawnSync } from 'node:child_process'
import {
  accessSync, closeSync, constants, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync,
  statfsSync, writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { scenarios, slow } from './scenarios.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const results = join(root, '.tap/test-results')
const tool = (name) => fileURLToPath(new URL(`./tools/${name}`, import.meta.url))
const MEMORY_BYTES = 3 * 2 ** 30
/** Maximum number of files that share a process. */
const TOGETHER = 8
/** Matches files that need a separate process, because they change the root test or inspect the process. */
const FOR_ITSELF =
  /^t\.(before|after|setTimeout|jobs)\b|process\.(memoryUsage|cpuUsage|getActiveResourcesInfo)\b/m

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: {
  all: { type: 'boolean' },
  rest: { type: 'boolean' },
  jobs: { type: 'string', default: '3' },
  alone: { type: 'boolean' },
  timeout: { type: 'string', default: '240' }
} })

/** Test files at or below a path, relative to the root. */
function testFiles (path) {
  const from = relative(root, resolve(path))
  if (from.endsWith('.test.ts')) return [from]
  return readdirSync(join(root, from), { recursive: true, encoding: 'utf8' })
    .map((name) => join(from, name)).sort()
    .filter((name) => name.endsWith('.test.ts') && !/(^|\/)(fixtures|bench|node_modules)\//.test(name))
}

/** Groups files by the process that they share; files that run alone come first. */
function grouped (files) {
  const groups = []
  for (const file of files) {
    const last = groups.at(-1)
    const alone = options.alone || file.startsWith('test/') ||
      FOR_ITSELF.test(readFileSync(join(root, file), 'utf8'))
    const fits = last?.length < TOGETHER && dirname(last[0]) === dirname(file)
    if (alone) groups.unshift([file])
    else if (fits) last.push(file)
    else groups.push([file])
  }
  return groups
}

/** Folder for temporary files: in memory if that is large enough and allows programs to run, else on disk. */
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

/** Runs files in one process; resolves to its output and whether it succeeded. */
async function run (group, job) {
  const paths = ['out', 'err'].map((name) => join(temp, `${job}.${name}`))
  const open = paths.map((path) => openSync(path, 'w'))
  const child = spawn(process.execPath,
    ['--enable-source-maps', `--import=${tool('typescript.mjs')}`, tool('together.mjs'), ...group], {
      cwd: root,
      stdio: ['ignore', ...open],
      env: { ...process.env, TMPDIR: temp, TAP: '1', TAP_JOB_ID: `${job}`,
        TAP_TIMEOUT: options.timeout }
    })
  running.add(child)
  // tap itself ends a file that hangs, unless the process is too busy to check the time.
  const late = setTimeout(() => { child.kill('SIGKILL') }, 2000 * Number(options.timeout))
  const status = await new Promise((done) => { child.on('close', done) })
  running.delete(child)
  clearTimeout(late)
  open.forEach((fd) => { closeSync(fd) })
  const [tap, stderr] = paths.map((path) => readFileSync(path, 'utf8'))
  return { tap, stderr, passed: status === 0 }
}

/** Splits a group's output into a result per file: TAP, seconds, success. A file that did not run fails. */
function outcomes (group, { tap, passed }) {
  const [last, ...parts] = tap.split(/^# end of .* after (\d+) ms\n/m).reverse()
  const texts = parts.reverse()
  const files = group.map((file, i) => {
    const [text, ms] = texts.slice(2 * i, 2 * i + 2)
    const ok = ms !== undefined && /^ok /m.test(text) && !/^not ok /m.test(text)
    return { file, text: text ?? '', seconds: Number(ms ?? 0) / 1000, ok }
  })
  // The rest of the output belongs to the file that did not end. If all ended, it is about the process, for
  // example about an open handle, and goes to the last file.
  const rest = files.find(({ ok, seconds }) => !ok && seconds === 0) ?? files.at(-1)
  rest.text += last
  if (!passed && files.every(({ ok }) => ok)) rest.ok = false
  return files
}

/** The failed assertions in a TAP text with their diagnostics; enclosing tests are left out. */
function failures (text) {
  const found = text.match(/^ *not ok .*\n( *---\n[^]*?\n *\.\.\.\n)?/gm) ?? []
  return found.filter((one) => !/^ *not ok .* # time=/.test(one)).join('')
}

/** Prints and stores the results of a group. */
function tell (group, ran, processSeconds) {
  const files = outcomes(group, ran)
  // The process's start-up time counts towards its first file.
  files[0].seconds += processSeconds - files.reduce((sum, { seconds }) => sum + seconds, 0)
  for (const { file, text, ok, seconds } of files) {
    const out = join(results, `${file}.tap`)
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, text)
    console.log(`${ok ? 'ok    ' : 'not ok'} ${seconds.toFixed(1).padStart(6)} s  ${file}`)
    if (!ok) {
      console.log(failures(text) || '  none of its tests ran')
      failed.push(file)
    }
    const name = dirname(file).replace(/\/test$/, '')
    const sum = folders.get(name) ?? { files: 0, seconds: 0 }
    folders.set(name, { files: sum.files + 1, seconds: sum.seconds + seconds })
  }
  if (files.some(({ ok }) => !ok)) console.log(ran.stderr)
}

/** The test files that the command line selects. */
function chosen () {
  if (positionals.length > 0) return [...new Set(positionals.flatMap(testFiles))]
  const all = ['test', 'kernel', 'plugins'].flatMap((top) => testFiles(join(root, top)))
    // Tests in these folders need a build or download first; see docs/testing.md.
    .filter((file) => !['test/llama', 'test/models'].includes(dirname(file)))
    .filter((file) => !/^test\/(clients|engines|real)\//.test(file))
    // Only the short test of the page; `npm run test:page` runs all of them.
    .filter((file) => dirname(file) !== 'test/page' || file === 'test/page/short.test.ts')
  if (options.all && !options.rest) return all
  const short = Object.values(scenarios).map((name) => `test/node/${name}.test.ts`)
  const missing = [...short, ...slow].filter((file) => !all.includes(file))
  if (missing.length > 0) throw new Error(`scenarios.mjs names missing files: ${missing.join(', ')}`)
  const rest = all.filter((file) =>
    slow.includes(file) || (dirname(file) === 'test/node' && !short.includes(file)))
  return options.rest ? rest : all.filter((file) => !rest.includes(file))
}

const files = chosen()
const [running, folders, failed] = [new Set(), new Map(), []]
const temp = tempFolder()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
  rmSync(temp, { recursive: true, force: true })
})
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1))

const started = performance.now()
const groups = grouped(files)
await Promise.all(Array.from({ length: Number(options.jobs) }, async (_, job) => {
  for (let group = groups.shift(); group !== undefined; group = groups.shift()) {
    const from = performance.now()
    tell(group, await run(group, job), (performance.now() - from) / 1000)
  }
}))

console.log('\nSeconds of the files of each folder, as if run one after the other:')
for (const [name, { files, seconds }] of folders) {
  console.log(`${seconds.toFixed(1).padStart(8)} s  ${String(files).padStart(4)} files  ${name}`)
}
const wall = Math.round((performance.now() - started) / 1000)
console.log(`${files.length} files in ${Math.floor(wall / 60)} min ${wall % 60} s, ${failed.length} failed`)
for (const file of failed) console.log(`failed: ${file}`)
process.exitCode = failed.length === 0 ? 0 : 1
