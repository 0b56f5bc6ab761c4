import { createHash } from 'node:crypto'
import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  canAsk, confirm, isVerbError, plain, type Verb, type VerbContext, type VerbError
} from '../../../kernel/cli/index.js'
import { systemClock, writeVersioned } from '../../../kernel/index.js'
import {
  changeSetting, disabledIn, faultOf, findPlugin, folderOf, hashFolder, installationOf, loadPlugins, nodeRuns,
  packagesFolder, prepareHome, printEffect, readRecord, recordPath, restartHint, saveConfigFile, sectionsIn,
  takeLock, turn, type SwitchEffect, type Installation, type PackageRecord
} from '../../../kernel/installing.js'
import { fetchPackage, type Fetched } from './fetch.js'
import { declares } from './show.js'

/** Milliseconds between checks of whether another command has released the lock. */
const LOCK_POLL_MS = 100
/** Limit on the wait for the lock, in ms. */
const LOCK_MS = 600_000

export const install: Verb = {
  async run (ctx, [source], options) {
    const fetched = await fetchPackage(ctx, source!)
    try {
      const { name } = fetched.manifest
      if (!/^[a-z][a-z0-9-]*$/.test(name)) throw ctx.fail(1, `"${name}" is not a valid plugin name`)
      if ((await ctx.plugins()).some(({ manifest }) => manifest.name === name)) {
        throw ctx.fail(1, `"${name}" is the name of a plugin that ships with svc`)
      }
      await accepted(ctx, fetched, options['yes'] === true)
      await afterOthers(ctx, async () => {
        const installation = await installationOf(ctx)
        const old = installedFolder(ctx, installation, name)
        const known = installation.plugins.find(({ manifest }) => manifest.name === name)
        if (known !== undefined && old === undefined) {
          throw ctx.fail(1, `svc.yaml loads "${name}" from ${known.source}; remove that section first`)
        }
        const folder = keep(ctx, fetched)
        const effect = await use(ctx, installation, fetched, folder)
        if (effect.why === null && old !== undefined && old !== folder) removeFolder(ctx.home, old)
        report(ctx, fetched, folder, effect)
      })
    } finally {
      rmSync(fetched.root, { recursive: true, force: true })
    }
  }
}

/** Runs `work` once no other command is changing this home's plugins; the last command wins. */
async function afterOthers (ctx: VerbContext, work: () => Promise<void>): Promise<void> {
  prepareHome(ctx.home, ['plugins'])
  const path = join(packagesFolder(ctx.home), '.lock')
  let taken = takeLock(path)
  if (typeof taken !== 'function') ctx.err.line(`waiting for process ${taken.pid}, which is changing plugins`)
  const until = systemClock.mono() + LOCK_MS
  while (typeof taken !== 'function') {
    if (systemClock.mono() > until) {
      throw ctx.fail(1, `process ${taken.pid} is still changing plugins; nothing was done`)
    }
    await sleep(LOCK_POLL_MS, undefined, { signal: ctx.signal })
    taken = takeLock(path)
  }
  try { await work() } finally { taken() }
}

async function accepted (ctx: VerbContext, fetched: Fetched, yes: boolean): Promise<void> {
  const { manifest, package: name, version } = fetched
  // Control characters in the plugin's own text must not hide a line of this list.
  for (const line of [`${name} ${version}: ${manifest.summary}`, ...declares(manifest)]) {
    ctx.err.line(plain(line))
  }
  ctx.err.line('It runs inside the node: regardless of its declarations, it can read and change everything ' +
    'that the node can, including its keys and tokens.')
  if (yes) return
  if (!canAsk(ctx)) throw ctx.fail(2, 'there is no terminal to ask; add --yes to install it')
  if (!await confirm(ctx, `Install ${manifest.name}?`)) throw ctx.fail(1, 'not installed')
}

/** Writes the install record, then moves the folder to its final place, named after its files' hash. */
function keep ({ home }: VerbContext, { root, manifest, module, version, package: name }: Fetched): string {
  tighten(root)
  const files = hashFolder(root)
  const sha256 = hashOfAll(files)
  const folder = `${manifest.name}-${sha256.slice(0, 16)}`
  const to = join(packagesFolder(home), folder)
  writeRecord(home, folder, {
    name: manifest.name, package: name, version, installed: new Date().toISOString(), sha256, files,
    module, manifest
  })
  // If the same package is already installed, keep an intact folder and replace a broken one.
  if (existsSync(to)) {
    if (faultOf(home, folder, readRecord(home, folder)!) === null) return folder
    renameSync(to, `${root}-old`)
    renameSync(root, to)
    rmSync(`${root}-old`, { recursive: true, force: true })
  } else renameSync(root, to)
  return folder
}

function writeRecord (home: string, folder: string, record: PackageRecord): void {
  writeVersioned(recordPath(home, folder), 1, record)
}

function removeFolder (home: string, folder: string): void {
  rmSync(join(packagesFolder(home), folder), { recursive: true, force: true })
  rmSync(recordPath(home, folder), { force: true })
}

function hashOfAll (files: Readonly<Record<string, string>>): string {
  const lines = Object.entries(files).sort(([a], [b]) => a < b ? -1 : 1)
  return createHash('sha256').update(lines.map(([path, hash]) => `${hash}  ${path}\n`).join('')).digest('hex')
}

/** Lets only the owner write to the files, whatever modes the package has. */
function tighten (path: string): void {
  const stat = lstatSync(path)
  if (stat.isSymbolicLink()) return
  chmodSync(path, stat.mode & 0o755)
  if (stat.isDirectory()) for (const name of readdirSync(path)) tighten(join(path, name))
}

/** Adds the plugin to svc.yaml and starts it on this home's node; a failure leaves svc.yaml unchanged. */
async function use (
  ctx: VerbContext, installation: Installation, { manifest: { name }, module }: Fetched, folder: string
): Promise<SwitchEffect & { file: string }> {
  const path = installation.file ?? join(ctx.home, 'svc.yaml')
  const text = (): string | undefined => existsSync(path) ? readFileSync(path, 'utf8') : undefined
  const before = text()
  let after = before
  const target = join(packagesFolder(ctx.home), folder, module)
  const near = relative(dirname(resolve(path)), target)
  try {
    const file = changeSetting(ctx, installation, `plugins.${name}.module`,
      near.startsWith('..') ? target : `./${near}`)
    after = text()
    if (disabledIn(installation).has(name)) return { file, inEffect: false, why: null, restart: false }
    if (!nodeRuns(ctx, undefined)) {
      await loadPlugins({ home: ctx.home, env: ctx.io.env, flags: {}, bundled: await ctx.plugins() })
      return { file, inEffect: false, why: null, restart: false }
    }
    return { file, ...await turn(ctx, name, true) }
  } catch (error) {
    const was = sectionsIn(installation)[name]?.module
    // Revert only this command's change, because svc.yaml has changed since.
    if (text() !== after) {
      const place = was === undefined ? `plugins.${name}` : `plugins.${name}.module`
      changeSetting(ctx, await installationOf(ctx), place, was)
    } else if (before === undefined) rmSync(path, { force: true })
    else saveConfigFile(path, before)
    if (installedFolder(ctx, installation, name) !== folder) removeFolder(ctx.home, folder)
    throw isVerbError(error) ? withoutEnable(ctx, error) : ctx.fail(1, (error as Error).message)
  }
}

/** Replaces the node's advice to enable the plugin again, which fails because it is not installed. */
function withoutEnable (ctx: VerbContext, error: VerbError): VerbError {
  const { api } = error
  if (api?.reason !== 'plugin_failed') return error
  return ctx.fail(1, `${api.message}\n  Fix the plugin and install it again: it is not installed.`)
}

function report (ctx: VerbContext, fetched: Fetched, folder: string, effect: SwitchEffect): void {
  const { manifest: { name }, version } = fetched
  if (ctx.out.json) {
    ctx.out.value({ plugins: [{ name, version, folder: join(packagesFolder(ctx.home), folder), ...effect }] })
    return
  }
  ctx.out.line(`${name} ${version} is installed${effect.inEffect ? ', and running' : ''}.`)
  if (effect.why !== null) printEffect(ctx, effect)
  else if (!effect.inEffect) ctx.out.line('It starts with the node; if disabled, with `svc plugin enable`.')
}

function installedFolder (ctx: VerbContext, installation: Installation, name: string): string | undefined {
  const module = sectionsIn(installation)[name]?.module
  if (typeof module !== 'string' || installation.file === null) return undefined
  return folderOf(ctx.home, resolve(dirname(installation.file), module))
}

export const remove: Verb = {
  async run (ctx, [name], options) {
    const installation = await installationOf(ctx)
    const folder = installedFolder(ctx, installation, name!)
    if (folder === undefined) {
      const { source } = findPlugin(installation, name!)
      throw ctx.fail(1, source === 'bundled'
        ? `"${name!}" ships with svc; \`svc plugin disable ${name!}\` disables it`
        : `"${name!}" was not installed by svc: remove its section from svc.yaml`)
    }
    if (options['yes'] !== true && canAsk(ctx) && !await confirm(ctx, `Remove ${name!}?`)) {
      throw ctx.fail(1, 'not removed')
    }
    await afterOthers(ctx, async () => { await removeOne(ctx, name!, folder) })
    if (ctx.out.json) ctx.out.value({ plugins: [{ name, removed: true }] })
    else ctx.out.line(`${name!} is removed.`)
  }
}

async function removeOne (ctx: VerbContext, name: string, folder: string): Promise<void> {
  const running = nodeRuns(ctx, undefined)
  if (running) {
    const { inEffect, why } = await turn(ctx, name, false)
    if (!inEffect) {
      const lines = [`${name} is still running. ${why ?? ''}`, ...restartHint(ctx), 'Then remove it.']
      throw ctx.fail(1, lines.join('\n'))
    }
  }
  changeSetting(ctx, await installationOf(ctx), `plugins.${name}`, undefined)
  if (running) await turn(ctx, name, false)
  removeFolder(ctx.home, folder)
}
