import { spawn } from 'node:child_process'
import semver from 'semver'
import { noInspector } from '../../../kernel/index.js'
import type { VerbContext } from '../../../kernel/cli/index.js'

/** Timeout in ms for one npm command. */
const NPM_MS = 10 * 60_000
const NAME = /^(@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*$/i
const TAG = /^[a-z][\w.-]*$/i

/** True if the text names a registry package, possibly with a range or tag; false for other sources. */
export function isPackage (text: string): boolean {
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
  const { status, text } =
    await ran('npm', [command, ...FLAGS, ...more], { cwd, env, limitMs: NPM_MS, ctx })
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
