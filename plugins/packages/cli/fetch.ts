import semver from 'semver'
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { randomUUID } from 'node:crypto'
import { plain, visible, type VerbContext } from '../../../kernel/cli/index.js'
import { noInspector, packageRoot, type Manifest } from '../../../kernel/index.js'
import { linkSvc, packagesFolder, prepareHome } from '../../../kernel/installing.js'

const INCOMING = '.incoming-'
/** Time limit in ms for a module to print its declarations. */
const DESCRIBE_MS = 30_000

export interface Fetched {
  root: string
  package: string
  version: string
  /** Path of the plugin module inside the fetched folder. */
  module: string
  manifest: Manifest
}

/**
 * Fetches a package with its dependencies into a new folder under `<home>/plugins`, using npm without install
 * scripts, and reads its module's declarations in a process that cannot write or start other processes.
 * Leaves no files if it throws VerbError.
 */
export async function fetchPackage (ctx: VerbContext, source: string): Promise<Fetched> {
  const folder = packagesFolder(ctx.home)
  prepareHome(ctx.home, ['plugins'])
  clearIncoming(folder)
  linkSvc(ctx.home)
  const root = join(folder, `${INCOMING}${process.pid}-${randomUUID().slice(0, 8)}`)
  mkdirSync(root, { mode: 0o700 })
  try {
    writeFileSync(join(root, 'package.json'), '{ "private": true }\n')
    const spec = await packed(ctx, source, root)
    await npm(ctx, root, source,
      ['install', '--legacy-peer-deps', '--no-bin-links', '--omit=dev', '--save-exact', spec])
    rmSync(join(root, 'packed'), { recursive: true, force: true })
    rmSync(join(root, 'node_modules/.package-lock.json'), { force: true })
    const [name] = Object.keys((jsonAt(join(root, 'package.json'))['dependencies'] ?? {}) as object)
    if (name === undefined) throw ctx.fail(1, `npm installed nothing for ${source}`)
    const { version } = jsonAt(join(root, 'node_modules', name, 'package.json')) as { version: string }
    refuseOwnSvc(ctx, join(root, 'node_modules', name))
    refuseUnpinned(ctx, root)
    return { root, package: name, version, ...await describe(ctx, root, name) }
  } catch (error) {
    rmSync(root, { recursive: true, force: true })
    throw error
  }
}

/** The argument for npm: a folder is packed first, so that the published contents are installed. */
async function packed (ctx: VerbContext, source: string, root: string): Promise<string> {
  const path = resolve(ctx.io.cwd, source)
  const stat = existsSync(path) ? statSync(path) : undefined
  if (stat?.isFile() === true) return path
  if (stat?.isDirectory() === true && (/^[./]/.test(source) || existsSync(join(path, 'package.json')))) {
    refuseOwnSvc(ctx, path)
    const to = join(root, 'packed')
    mkdirSync(to)
    await npm(ctx, root, source, ['pack', '--pack-destination', to, path])
    return join(to, readdirSync(to)[0]!)
  }
  if (isPackage(source) && !source.endsWith('.tgz')) return source
  throw ctx.fail(2, `"${source}" is neither a folder with a package.json, nor a .tgz file, nor the name ` +
    'of a package such as demo, @me/demo or demo@^1.2.0')
}

function refuseOwnSvc (ctx: VerbContext, folder: string): void {
  const { dependencies, optionalDependencies } =
    jsonAt(join(folder, 'package.json')) as Record<string, object>
  if (!('svc' in { ...dependencies, ...optionalDependencies })) return
  throw ctx.fail(1, 'the package lists "svc" under "dependencies", which would install a second svc; ' +
    'list it under "peerDependencies" (and "devDependencies" for its tests)')
}

/** Throws for a package without a hash in the lockfile, and for one linked from another folder. */
function refuseUnpinned (ctx: VerbContext, root: string): void {
  interface Locked { integrity?: string, resolved?: string, inBundle?: boolean, link?: boolean }
  const { packages } = jsonAt(join(root, 'package-lock.json')) as { packages: Record<string, Locked> }
  const found = Object.entries(packages).find(([path, { integrity, inBundle, link }]) =>
    path !== '' && (link === true || (integrity === undefined && inBundle !== true)))
  if (found === undefined) return
  const [path, { resolved = 'nowhere' }] = found
  throw ctx.fail(1, `the package installs ${path.replace(/^.*node_modules\//, '')} from ${resolved}, ` +
    'which has no fixed hash; use packages of a registry, or bundle it')
}

function jsonAt (path: string): Record<string, unknown> {
  return JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
}

/** Removes the remains of killed installs, except while an install's npm is still running. */
function clearIncoming (folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(INCOMING) || runs(Number(name.slice(INCOMING.length).split('-')[0]))) continue
    try { rmSync(join(folder, name), { recursive: true, force: true }) } catch { /* Next install retries. */ }
  }
}

function runs (pid: number): boolean {
  try { return process.kill(pid, 0) } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Prefix that distinguishes the declarations from the module's other output. */
const MARK = 'svc-manifest '

async function describe (
  ctx: VerbContext, root: string, name: string
): Promise<{ module: string, manifest: Manifest }> {
  const script = `
    const tell = (what) => { process.stdout.write('\\n${MARK}' + JSON.stringify(what) + '\\n') }
    try {
      const url = import.meta.resolve(${JSON.stringify(name)})
      const { default: plugin } = await import(url)
      if (typeof plugin?.manifest === 'object' && typeof plugin.start === 'function') {
        const { models, engines, verbs, checks, tools, ...manifest } = plugin.manifest
        tell({ url, manifest })
      } else tell({ problem: 'its default export is not the result of definePlugin' })
    } catch (error) {
      tell({ problem: String(error?.message ?? error).split('\\n')[0] })
    }`
  const flags = process.allowedNodeEnvironmentFlags
  const guard = flags.has('--permission') ? '--permission' : '--experimental-permission'
  const reads = [root, packageRoot(), join(packagesFolder(ctx.home), 'node_modules')]
    .map((folder) => `--allow-fs-read=${folder}/*`)
  const { status, text } = await ran(process.execPath,
    [guard, ...reads, ...noInspector(), '--no-warnings', '--input-type=module', '--eval', script],
    { cwd: root, env: { PATH: ctx.io.env['PATH'] }, limitMs: DESCRIBE_MS, ctx })
  const line = text.split('\n').findLast((one) => one.startsWith(MARK))
  if (line === undefined) {
    const how = status === null ? `it was stopped after ${DESCRIBE_MS / 1000} s` : `it ended with ${status}`
    throw ctx.fail(1,
      `${name} did not print its declarations; ${how}:\n${visible(text.trim().slice(0, 2000))}`)
  }
  const { url, manifest, problem } = JSON.parse(line.slice(MARK.length)) as
    { url: string, manifest: Manifest, problem?: string }
  if (problem !== undefined) throw ctx.fail(1, `${name} is not an svc plugin: ${plain(problem)}`)
  const module = decodeURIComponent(new URL(url).pathname)
  if (!module.startsWith(`${root}/`)) throw ctx.fail(1, `the module of ${name} is outside its package`)
  return { module: module.slice(root.length + 1), manifest }
}

/** Timeout in ms for one npm command. */
const NPM_MS = 10 * 60_000
const NAME = /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/i
const TAG = /^[a-z][\w.-]*$/i

/** True if the text names a registry package, possibly with a range or tag; false for other sources. */
function isPackage (text: string): boolean {
  const at = text.indexOf('@', 1)
  const [name, wanted] = at < 0 ? [text, '*'] : [text.slice(0, at), text.slice(at + 1)]
  if (!NAME.test(name) || wanted === '') return false
  return semver.validRange(wanted) !== null || TAG.test(wanted)
}

/** npm flags that skip audits and progress output, and let an unreachable registry fail within seconds. */
const FLAGS = [
  '--ignore-scripts', '--allow-git=none', '--no-audit', '--no-fund', '--no-update-notifier',
  '--loglevel=error', '--fetch-retries=2', '--fetch-retry-mintimeout=500',
  '--fetch-retry-maxtimeout=2000'
]

/** Runs npm for `source`. Throws VerbError with a message about that source. */
export async function npm (ctx: VerbContext, cwd: string, source: string, args: string[]): Promise<void> {
  const [command = '', ...more] = args
  const options = [ctx.io.env['NODE_OPTIONS'] ?? '', ...noInspector()].join(' ').trim()
  const env = { ...ctx.io.env, NODE_OPTIONS: options }
  const { status, text } = await ran('npm', [command, ...FLAGS, ...more], { cwd, env, limitMs: NPM_MS, ctx })
  if (status !== 0) throw ctx.fail(...failure(source, command, text))
}

/** Explains npm's error codes; for other failures uses npm's own message. */
function failure (source: string, command: string, text: string): Parameters<VerbContext['fail']> {
  const code = /^npm (?:error|ERR!) code (\w+)$/m.exec(text)?.[1] ?? ''
  const said = text.split('\n')
    .map((line) => line.replace(/^npm (?:error|ERR!) ?(?:\d+ |notarget )?/, '').trim())
    .filter((line) => line !== '' && !/^code |^A complete log|^\/.*-debug-\d+\.log$/.test(line))
  const first = said[0] ?? 'npm gave no reason'
  switch (code) {
    case 'E404':
      return [3, `there is no package for ${source}: ${first}\n` +
        '  `npm config get registry` shows the registry in use']
    case 'ETARGET':
      return [3, `${first.replace(/\.$/, '')}: \`npm view ${nameOf(source)} versions\` lists them`]
    case 'EINTEGRITY':
      return [1, `a file for ${source} does not match its hash; nothing was installed: ${first}\n` +
        '  try again; if that fails, the registry or a proxy changes files: ' +
        '`npm config get registry` shows the registry']
    case 'E401':
    case 'E403':
      return [5, `the registry refuses ${source}: ${first}\n  use \`npm login\`, or a token in .npmrc`]
    case 'EALLOWGIT':
      return [1, `${source} depends on a git repository, which has no fixed hash: ${first}`]
  }
  if (UNREACHABLE.test(code)) {
    return [7, `the registry cannot be reached (${code}): ${first}\n` +
      '  `npm ping` tests it; `npm config get registry` shows its address. Nothing was installed']
  }
  return [1, `npm ${command} failed:\n${said.join('\n')}`]
}

const UNREACHABLE = RegExp('^(ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|' +
  'ETIMEDOUT|ERR_SOCKET_TIMEOUT|FETCH_ERROR|E5\\d\\d)$')

const nameOf = (source: string): string => source.split(/(?<=.)@/)[0]!

/** Runs a command to its end; an abort kills the command before the promise rejects. */
export async function ran (
  command: string, args: string[],
  { cwd, env, limitMs, ctx }: { cwd: string, env: NodeJS.ProcessEnv, limitMs: number, ctx: VerbContext }
): Promise<{ status: number | null, text: string }> {
  const child = spawn(command, args, {
    cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: limitMs, signal: ctx.signal, killSignal: 'SIGKILL'
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => { text += String(part) })
  return await new Promise((done, reject) => {
    child.on('error', (error) => {
      if (child.pid === undefined) reject(ctx.fail(1, `cannot run ${command}: ${error.message}`))
    })
    child.on('close', (status) => {
      if (ctx.signal.aborted) reject(ctx.fail(130, 'interrupted; nothing was installed'))
      else done({ status, text })
    })
  })
}
