import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { SvcError } from '../../api/errors.js'
import { exitLike, launch, launcherEnv, ListenError, RESTART_STATUS } from '../../boot/launcher.js'
import { isLoopbackUrl } from '../client.js'
import { exitCodeFor } from '../errors.js'
import { holderOf } from '../ports.js'
import { homeOption, programIn, shellWord } from '../shell.js'
import { readNumber } from '../text.js'
import type { Plugin } from '../../api/plugin.js'
import type { Address, LaunchOptions } from '../../boot/launcher.js'
import type { SvcNode } from '../../boot/node.js'
import type { Verb, VerbContext } from '../verb.js'

/** Milliseconds that a node is given to stop before it is killed. */
const STOP_LIMIT_MS = 14_500
/** Two signals within this many ms count as one Ctrl-C: the terminal and the launcher both send it. */
const SAME_SIGNAL_MS = 500

const DEFAULT_PORT = 52415

interface Flags extends Record<'host' | 'config' | 'name' | 'join', string | undefined> {
  port: number | undefined
  discovery: boolean | undefined
}

export default {
  async run (ctx, _args, options) {
    const flags = readFlags(ctx, options)
    const { env } = ctx.io
    if (env['SVC_NO_LAUNCHER'] === '1' || env[launcherEnv.pid] !== undefined) return await serve(ctx, flags)
    return await launched(ctx, { args: process.argv.slice(1), env, address: () => wantedAddress(ctx, flags) })
  }
} satisfies Verb

/** Runs a node with this process as its launcher; exits with its status or signal. */
export async function launched (ctx: VerbContext, options: LaunchOptions): Promise<number> {
  try {
    const ending = await launch(options)
    exitLike(ending)
    return ending.status ?? 1
  } catch (error) {
    throw error instanceof ListenError ? inUse(ctx, error.code, error.address) : error
  }
}

function readFlags (ctx: VerbContext, options: Record<string, unknown>): Flags {
  const { port, host, config, name, join = ctx.io.env['SVC_JOIN'] } =
    options as Record<string, string | undefined>
  return {
    host, config, name, port: readNumber(ctx, '--port', port, { min: 0, max: 65535 }),
    join: join === '' ? undefined : join, discovery: options['discovery'] === false ? false : undefined
  }
}

/** Address to listen on, found without loading plugins; null if unclear: then the node itself binds. */
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

/** `setting`: the setting with the address for members; undefined for the API's address. */
function inUse (ctx: VerbContext, code: string, { host, port }: Address, setting?: string): Error {
  const members = setting === undefined ? '' : 'for members '
  if (code !== 'EADDRINUSE') {
    const change = setting === undefined ? '--host and --port' : 'cluster.host and cluster.port in svc.yaml'
    return ctx.fail(1, `cannot listen ${members}on ${host}:${port}: ${code}; choose another with ${change}`)
  }
  const change = setting === undefined ? '--port' : `${setting} in svc.yaml, or SVC_CLUSTER_PORT=${port + 1}`
  return ctx.fail(1,
    `port ${port} ${members}is in use by ${holderOf(port)}; stop it, or choose another port with ${change}`)
}

/** Writes the node's name to svc.yaml, so that later starts need no `--name`. */
async function keepName (ctx: VerbContext, name: string, config: string | undefined): Promise<void> {
  const { changeSetting, installationOf } = await import('../installed.js')
  const installation = await installationOf(ctx, config)
  if (installation.raw.value['name'] === name || installation.raw.problems.length > 0) return
  try {
    changeSetting(ctx, installation, 'name', name)
  } catch (error) {
    ctx.err.line(`${ctx.err.paint('yellow', 'warning:')} the name applies to this start only: ` +
      (error as Error).message)
  }
}

/** Runs the node in this process until it stops; resolves to the exit status. */
async function serve (ctx: VerbContext, flags: Flags): Promise<number> {
  const { env } = ctx.io
  const fds = [env[launcherEnv.fd], env[launcherEnv.fd6]].filter((fd) => (fd ?? '') !== '').map(Number)
  const launcher = env[launcherEnv.pid]
  const starts = Number(env[launcherEnv.starts] ?? 1)
  // The launcher's pid, since the launcher outlives restarts of the node.
  const pid = Number(env[launcherEnv.pid] ?? process.pid)
  // Deleted so that runners and plugins do not inherit these variables.
  for (const name of [...Object.values(launcherEnv), 'SVC_JOIN']) Reflect.deleteProperty(process.env, name)
  endWithLauncher()
  const told = untilTold()
  if (flags.name !== undefined) await keepName(ctx, flags.name, flags.config)
  const node = await boot(ctx, flags, { fds, launcher }).catch((error: NodeJS.ErrnoException) => {
    if (error instanceof SvcError) throw ctx.fail(exitCodeFor(error.status, error.reason), error.message)
    if (error.syscall !== 'listen' || error.code === undefined) throw error
    const { port = 0, address = '', setting } = error as { port?: number, address?: string, setting?: string }
    throw inUse(ctx, error.code, { host: address, port }, setting)
  })
  process.on('uncaughtException', (error) => { node.failed(error) })
  const restart = new Promise<'restart'>((resolve) => { node.onRestart(() => { resolve('restart') }) })
  const { url } = await node.listen().catch((error: NodeJS.ErrnoException) => {
    if (error.code === undefined || error.syscall !== 'listen') throw error
    const port = (error as { port?: number }).port ?? flags.port ?? DEFAULT_PORT
    throw inUse(ctx, error.code, { host: flags.host ?? '127.0.0.1', port })
  })
  await announce(ctx, node, { url, pid, starts })
  const reason = await Promise.race([told, restart, node.refused])
  setTimeout(() => { process.exit(1) }, STOP_LIMIT_MS).unref()
  await node.stop(typeof reason === 'string' ? reason : reason.reason)
  if (typeof reason !== 'string') throw ctx.fail(exitCodeFor(reason.status, reason.reason), reason.message)
  return reason === 'restart' ? RESTART_STATUS : reason === 'SIGINT' ? 130 : 0
}

async function boot (
  ctx: VerbContext, flags: Flags, { fds, launcher }: { fds: readonly number[], launcher: string | undefined }
): Promise<SvcNode> {
  const { createNode } = await import('../../boot/node.js')
  const { port, host, name, config, join } = flags
  const given = { 'api.port': port, 'api.host': host, name, 'cluster.discovery': flags.discovery }
  return await createNode({
    home: ctx.home, ...(config === undefined ? {} : { configFlag: config }),
    flags: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    env: ctx.io.env, bundled: await ctx.plugins(), ...(join === undefined ? {} : { join }),
    ...(launcher === undefined ? {} : { launcher: Number(launcher) }), listenFds: fds
  })
}

/** Ends the node when the channel to the launcher closes, for systems without setpriv. */
function endWithLauncher (): void {
  if (process.channel == null) return
  process.once('disconnect', () => { process.exit(1) })
  process.channel.unref()
}

/** Resolves on the first stop signal; a later Ctrl-C ends the process immediately. */
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

/** Prints the node's address, on stdout on the first start and on stderr after a restart. */
async function announce (
  ctx: VerbContext, node: SvcNode, { url, pid, starts }: { url: string, pid: number, starts: number }
): Promise<void> {
  for (const warning of node.warnings) ctx.err.line(`${ctx.err.paint('yellow', 'warning:')} ${warning}`)
  if (node.joined) ctx.err.line('joined the cluster; `svc nodes` lists its nodes')
  // With `logging.enabled`, stdout may contain only JSON.
  const out = node.logsJson ? ctx.err : ctx.out
  if (starts > 1) {
    ctx.err.line(`restarted: ${url} (node ${node.nodeId}, pid ${process.pid})`)
  } else if (ctx.out.json) {
    const { fingerprint, authority } = node.tls ?? {}
    ctx.out.value({ url, nodeId: node.nodeId, pid, home: node.home, fingerprint, authority })
  } else {
    out.line(`svc is up at ${url}`)
    for (const line of [...aboutTls(node), ...firstSteps(ctx, await ctx.plugins(), node)]) out.line(line)
  }
}

function aboutTls ({ tls }: SvcNode): string[] {
  if (tls === undefined) return []
  const { fingerprint, authority } = tls
  return [
    `Fingerprint of its key: ${fingerprint}`,
    ...authority === null
      ? [] : [`To make programs and browsers trust it, add ${authority} to their trusted authorities`]
  ]
}

/** Example commands from the bundled plugins, for the user to paste. */
function firstSteps ({ home, io }: VerbContext, plugins: readonly Plugin[], { url, tls }: SvcNode): string[] {
  const lines = plugins.flatMap(({ manifest }) => manifest.firstSteps ?? [])
  const shown = lines.length > 0 ? lines : ['See what it can do: {svc} capabilities{home}']
  const authority = tls?.authority ?? null
  const words: Readonly<Record<string, string>> = {
    url,
    svc: programIn(io.cwd),
    home: homeOption(home),
    curl: authority === null ? 'curl -sS' : `curl -sS --cacert ${shellWord(authority)}`,
    token: `-H "authorization: Bearer $(cat ${shellWord(join(home, 'operator.token'))})"`
  }
  return shown.filter((line) => !line.includes('{token}') || !isLoopbackUrl(url))
    .map((line) => line.replace(/\{(\w+)\}/g, (whole, word: string) => words[word] ?? whole))
}
