// npm run test:scan [-- OPTION ...]: schemathesis sends valid and invalid requests to a real node, and fails
// if an answer contradicts /openapi.json. It is installed from PyPI into $XDG_CACHE_HOME/svc-test; without a
// connection the scan is skipped with a message. OPTION is an option of schemathesis, such as --include-path
// /state.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const VERSION = '4.32.5'
/** Time limit in seconds for all requests in the scan. */
const MOST_SECONDS = 480

const here = fileURLToPath(new URL('.', import.meta.url))
const program = fileURLToPath(new URL('../../dist/kernel/cli/main.js', import.meta.url))

/** Path of schemathesis, which is installed if missing; undefined if the installation fails. */
function schemathesis () {
  const cache = process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache')
  const folder = join(cache, 'svc-test', `schemathesis-${VERSION}`)
  const found = join(folder, 'bin/schemathesis')
  if (existsSync(join(folder, 'whole'))) return found
  rmSync(folder, { recursive: true, force: true })
  const steps = [
    ['python3', '-m', 'venv', folder],
    [join(folder, 'bin/pip'), 'install', '--quiet', '--disable-pip-version-check', `schemathesis==${VERSION}`]
  ]
  for (const [command, ...args] of steps) {
    const { status, stderr, error } = spawnSync(command, args, { encoding: 'utf8', timeout: 300_000 })
    if (status === 0) continue
    console.error(`skipped: ${command} ${args[0]}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`)
    return undefined
  }
  writeFileSync(join(folder, 'whole'), '')
  return found
}

/** A node that grants no access without a token, has a store, and reaches no hub. */
async function startNode (home) {
  mkdirSync(join(home, 'store'))
  writeFileSync(join(home, 'svc.yaml'), [
    'access: { local: [] }', 'limits: { streams_per_token: 65536 }',
    `model_store: { store_path: ${join(home, 'store')}, hub: { url: 'http://127.0.0.1:9' } }`
  ].join('\n'))
  const { NODE_OPTIONS: _, ...env } = process.env
  const args = [program, 'up', '--json', '--home', home, '--port', '0', '--no-discovery']
  const node = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const lines = createInterface({ input: node.stdout })[Symbol.asyncIterator]()
  const { value } = await lines.next()
  if (value === undefined) throw new Error('the node did not start')
  const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  return { node, url: JSON.parse(value).url, token }
}

const found = schemathesis()
if (found !== undefined) {
  const home = mkdtempSync(join(tmpdir(), 'svc-scan-'))
  const { node, url, token } = await startNode(home)
  try {
    const args = ['--config-file', join(here, 'schemathesis.toml'), 'run', `${url}/openapi.json`,
      '--url', url, '--max-time', String(MOST_SECONDS), ...process.argv.slice(2)]
    const scan = spawn(found, args, {
      cwd: home, stdio: 'inherit', env: { ...process.env, SVC_SCAN_TOKEN: token, PYTHONWARNINGS: 'ignore' }
    })
    const stop = setTimeout(() => { scan.kill('SIGINT') }, (MOST_SECONDS + 60) * 1000)
    const [status] = await new Promise((resolve) => { scan.on('exit', (...ending) => { resolve(ending) }) })
    clearTimeout(stop)
    process.exitCode = status ?? 1
    if (node.exitCode !== null || node.signalCode !== null) throw new Error('the node exited during the scan')
  } finally {
    node.kill()
    await new Promise((resolve) => { node.on('exit', resolve) })
    rmSync(home, { recursive: true, force: true })
  }
}
