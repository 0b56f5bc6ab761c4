import { access } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { endLike, launch, launcherEnv, ListenError } from '../../launcher.js'
import { RESTART_STATUS } from '../../restart.js'
import { settingsEnv } from '../env.js'
import { SvcError } from '../../errors.js'
import { isLoopbackUrl } from '../client.js'
import { exitCodeFor } from '../errors.js'
import { portHolder } from '../port-holder.js'
import type { Address } from '../../launcher.js'
import type { Plugin } from '../../define.js'
import type { SvcNode } from '../../node.js'
import type { Verb, VerbContext } from '../verb.js'

/** A node that has not stopped by then is ended, ms. */
const STOP_LIMIT_MS = 14_500
/** One Ctrl-C may arrive twice: from the terminal and from the launcher. */
const SAME_SIGNAL_MS = 500

const DEFAULT_PORT = 52415

interface Flags {
  port?: number
  host?: string
  config?: string
  name?: string
  join?: string
  discovery?: boolean
  /** `host` was not given: it follows from the join token. */
  found?: boolean
}

export default {
  async run (ctx, _args, options) {
    const flags = await reachable(ctx, readFlags(ctx, options))
    const { env } = ctx.io
    if (env['SVC_NO_LAUNCHER'] === '1' || env[launcherEnv.pid] !== undefined) return await serve(ctx, flags)
    try {
      const args = process.argv.slice(1)
      const ending = await launch({ args, env, address: () => wantedAddress(ctx, flags) })
      endLike(ending)
      return ending.status ?? 1
    } catch (error) {
      throw error instanceof ListenError ? inUse(ctx, error.code, error.address) : error
    }
  }
} satisfies Verb

function readFlags (ctx: VerbContext, options: Record<string, unknown>): Flags {
  const { port, host, config, name, join } = options as Record<string, string | undefined>
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= 65535)) {
    throw ctx.fail(2, `--port ${port}: expected a whole number from 0 to 65535`)
  }
  return {
    ...(port === undefined ? {} : { port: Number(port) }),
    ...(host === undefined ? {} : { host }),
    ...(config === undefined ? {} : { config }),
    ...(name === undefined ? {} : { name }),
    ...(join === undefined ? {} : { join }),
    ...(options['discovery'] === false ? { discovery: false } : {})
  }
}

/**
 * With a join token the node listens on the address that reaches the inviter, unless one was set: on
 * loopback, the default, nobody else could reach it.
 */
async function reachable ({ io: { env }, fail }: VerbContext, flags: Flags): Promise<Flags> {
  const { host, join } = flags
  if (join === undefined || host !== undefined || env['SVC_API_HOST'] !== undefined) return flags
  const { readAddress, readJoinToken } = await import('../../cluster/identity/index.js')
  const { localAddressTo } = await import('../../cluster/local-address.js')
  const known = readAddress(join)
  try {
    const seeds = known === undefined ? readJoinToken(join, 0).seeds : [join]
    const seed = readAddress(seeds[0] ?? '')
    const own = seed === undefined ? undefined : await localAddressTo(seed.host)
    return own === undefined ? flags : { ...flags, host: own, found: true }
  } catch (error) {
    throw fail(2, `--join: ${(error as Error).message}`)
  }
}

/**
 * Where the node will listen, as far as can be said without its plugins: null when svc.yaml has something
 * unusual there, and the node then binds by itself and reports what is wrong.
 */
async function wantedAddress ({ io: { env }, home }: VerbContext, flags: Flags): Promise<Address | null> {
  const named = flags.config ?? env['SVC_CONFIG'] ?? ''
  const file = named !== '' || await access(join(home, 'svc.yaml')).then(() => true, () => false)
  const api: { host?: unknown, port?: unknown } = file ? await apiSection(env, home, flags.config) : {}
  const host = flags.host ?? env['SVC_API_HOST'] ?? api.host ?? '127.0.0.1'
  const variable = env['SVC_API_PORT']
  const port = flags.port ?? (variable === undefined ? api.port ?? DEFAULT_PORT : Number(variable))
  const usable = typeof host === 'string' && host !== '' && !host.includes('$') &&
    Number.isInteger(port) && (port as number) >= 0 && (port as number) <= 65535
  return usable ? { host, port: port as number } : null
}

async function apiSection (env: NodeJS.ProcessEnv, home: string, flag?: string): Promise<object> {
  const { findConfig, readConfigFile } = await import('../../config/file.js')
  const raw = readConfigFile(findConfig({ flag, env, home }))
  const { api } = raw.value as { api?: unknown }
  return raw.problems.length === 0 && typeof api === 'object' && api !== null ? api : {}
}

function inUse (ctx: VerbContext, code: string, { host, port }: Address): Error {
  if (code !== 'EADDRINUSE') {
    return ctx.fail(1, `cannot listen on ${host}:${port}: ${code}; choose another with --host and --port`)
  }
  const holder = portHolder(port)
  return ctx.fail(1, `port ${port} is in use by ${holder === undefined
    ? 'a process that this user cannot see'
    : `process ${holder.pid} (${holder.command.slice(0, 160)})`}; ` +
    'stop it, or choose another port with --port')
}

/** Runs the node in this process until it is told to stop; resolves to the exit status. */
async function serve (ctx: VerbContext, flags: Flags): Promise<number> {
  const { env } = ctx.io
  const fd = env[launcherEnv.fd] ?? ''
  const starts = Number(env[launcherEnv.starts] ?? 1)
  for (const name of Object.values(launcherEnv)) Reflect.deleteProperty(process.env, name)
  endWithLauncher()
  const told = untilTold()
  const node = await boot(ctx, flags, fd).catch((error: NodeJS.ErrnoException) => {
    if (error instanceof SvcError) throw ctx.fail(exitCodeFor(error.status, error.reason), error.message)
    if (error.syscall !== 'listen' || error.code === undefined) throw error
    const { port = 0, address = '' } = error as { port?: number, address?: string }
    throw inUse(ctx, error.code, { host: address, port })
  })
  const restart = new Promise<'restart'>((resolve) => { node.onRestart(() => { resolve('restart') }) })
  const { url } = await node.listen().catch((error: NodeJS.ErrnoException) => {
    if (error.code === undefined || error.syscall !== 'listen') throw error
    const port = (error as { port?: number }).port ?? flags.port ?? DEFAULT_PORT
    throw inUse(ctx, error.code, { host: flags.host ?? '127.0.0.1', port })
  })
  await announce(ctx, node, url, starts)
  if (flags.found === true && flags.host !== '127.0.0.1' && starts === 1) {
    ctx.err.line(`It listens on ${flags.host!} because of --join; to keep that for later starts: ` +
      `svc config set api.host ${flags.host!}`)
  }
  const reason = await Promise.race([told, restart])
  setTimeout(() => { process.exit(1) }, STOP_LIMIT_MS).unref()
  await node.stop(reason)
  return reason === 'restart' ? RESTART_STATUS : reason === 'SIGINT' ? 130 : 0
}

async function boot (ctx: VerbContext, flags: Flags, fd: string): Promise<SvcNode> {
  const { createNode } = await import('../../node.js')
  const { port, host, name, config, join } = flags
  const given = { 'api.port': port, 'api.host': host, name, 'cluster.discovery': flags.discovery }
  return await createNode({
    home: ctx.home,
    ...(config === undefined ? {} : { configFlag: config }),
    flags: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    env: settingsEnv(ctx.io.env),
    bundled: await ctx.plugins(),
    ...(join === undefined ? {} : { join }),
    ...(fd === '' ? {} : { listenFd: Number(fd) })
  })
}

/** Where the system cannot tie the two together (setpriv), the end of the channel ends the node. */
function endWithLauncher (): void {
  if (process.channel == null) return
  process.once('disconnect', () => { process.exit(1) })
  process.channel.unref()
}

/** Resolves with the first signal to stop; a later Ctrl-C ends the process at once. */
function untilTold (): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: number | undefined
    const heard = (signal: NodeJS.Signals): void => {
      const again = first !== undefined && performance.now() - first > SAME_SIGNAL_MS
      if (again && signal === 'SIGINT') process.exit(130)
      first ??= performance.now()
      resolve(signal)
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, heard)
  })
}

/** Says where the node listens: on stdout at the first start, on stderr after a restart. */
async function announce (ctx: VerbContext, node: SvcNode, url: string, starts: number): Promise<void> {
  for (const warning of node.warnings) ctx.err.line(`${ctx.err.paint('yellow', 'warning:')} ${warning}`)
  if (starts > 1) {
    ctx.err.line(`restarted: ${url} (node ${node.nodeId}, pid ${process.pid})`)
  } else if (ctx.out.json) {
    ctx.out.value({ url, nodeId: node.nodeId, pid: process.pid, home: node.home })
  } else {
    ctx.out.line(`svc is up at ${url}`)
    for (const line of firstSteps(await ctx.plugins(), url, ctx.home)) ctx.out.line(line)
  }
}

/** Lines to paste, for what the plugins that ship offer. */
function firstSteps (plugins: readonly Plugin[], url: string, home: string): string[] {
  const where = home === join(homedir(), '.svc') ? '' : ` --home ${home}`
  const speaks = plugins.some(({ manifest }) => manifest.verbs?.['say'] !== undefined)
  return speaks
    ? ['Hear it speak (in another terminal):',
        `  npx svc say "Hello from svc" -o hello.mp3${where}`,
        `  curl -sS ${url}/v1/audio/speech -H 'content-type: application/json' \\`,
        ...(isLoopbackUrl(url) ? [] : [`    -H "authorization: Bearer $(cat ${home}/operator.token)" \\`]),
        '    -d \'{"model":"svc/voice-en","input":"Hello from svc"}\' -o hello.mp3']
    : [`See what it can do: npx svc capabilities${where}`]
}
