import { describe } from '../../config/values.js'
import { parseNeed } from '../../plugins/graph.js'
import { fieldsOf } from '../fields.js'
import { failuresOf } from '../contributed.js'
import { arranged, disabledIn, findPlugin, installationOf } from '../installed.js'
import { plain } from '../output.js'
import { pluginsAtNode, switched, switchElsewhere, tellEffect } from '../switching.js'
import type { Manifest } from '../../api/plugin.js'
import type { AtNode } from '../switching.js'
import type { Out, Verb, VerbContext } from '../verb.js'

/** `svc plugin ls` */
export const ls: Verb = {
  async run (ctx, _args, options) {
    const running = await pluginsAtNode(ctx, options['config'])
    if (ctx.elsewhere !== undefined) {
      return list(ctx, running!.map(({ enabled, ...one }) =>
        ({ ...one, state: enabled ? 'enabled' : 'off', source: ctx.client.url })))
    }
    const installation = await installationOf(ctx, options['config'])
    const disabled = disabledIn(installation)
    const { down } = arranged(installation, disabled)
    const plugins = installation.plugins.map(({ manifest: { name, version, summary }, source }) => {
      const change = installation.changed.find((one) => one.name === name)
      const off = change?.message ?? down.find((d) => d.plugin === name)?.message ?? null
      const said = change !== undefined ? 'changed'
        : disabled.has(name) ? 'disabled' : off === null ? 'enabled' : 'off'
      const { state, why } = asItRuns(name, said, off, running)
      return { name, version, state, why, source, summary }
    })
    list(ctx, plugins)
    for (const failure of failuresOf(installation)) ctx.err.line(failure)
    return installation.failures.length > 0 ? 1 : 0
  }
}

type Listed = Omit<AtNode, 'enabled'> & { state: string, source: string }

function list ({ out, err }: VerbContext, plugins: readonly Listed[]): void {
  if (out.json) out.value({ plugins })
  else {
    out.table(['PLUGIN', 'VERSION', 'STATE', 'FROM', 'SUMMARY'],
      plugins.map((p) => [p.name, p.version, p.state, p.source, p.summary]))
  }
  for (const { why } of plugins) if (why !== null) err.line(plain(why))
}

/** The state by svc.yaml, corrected if the running node differs until its restart. */
function asItRuns (
  name: string, state: string, why: string | null, running: readonly AtNode[] | undefined
): { state: string, why: string | null } {
  if (running === undefined) return { state, why }
  const runs = running.some((one) => one.name === name && one.enabled)
  if (runs === (state === 'enabled')) return { state, why }
  return runs
    ? { state: 'running', why: `${name} runs until the node restarts: svc.yaml has it ${state}; svc restart` }
    : { state: 'waiting', why: `${name} starts when the node restarts: svc.yaml has it enabled; svc restart` }
}

/** `svc plugin enable` */
export const enable: Verb = {
  async run (ctx, [name], options) {
    if (ctx.elsewhere !== undefined) return await switchElsewhere(ctx, name!, true, options['config'])
    const installation = await installationOf(ctx, options['config'])
    const { manifest } = findPlugin(installation, name!)
    const off = disabledIn(installation)
    const before = arranged(installation, off).order
    off.delete(name!)
    const { order, down } = arranged(installation, off)
    const comes = order.filter((one) => !before.includes(one) && one !== name)
    const still = down.find((d) => d.plugin === name)?.message ?? null
    const { file, ...effect } = await switched(ctx, installation, name!, true, options['config'])
    if (ctx.out.json) {
      const plugin = { name, enabled: true, file, comesBack: comes, stillOff: still, ...effect }
      ctx.out.value({ plugins: [plugin] })
      return
    }
    for (const line of asksFor(manifest)) ctx.out.line(line)
    ctx.out.line(`${name!} is enabled in ${file}${effect.inEffect ? ', and running' : ''}.`)
    if (still !== null) ctx.out.line(`It stays off for now: ${still}`)
    if (comes.length > 0) ctx.out.line(`With it comes back: ${comes.join(', ')}.`)
    tellEffect(ctx, effect)
  }
}

/** The same with the services that it asks for, and what it can do and be set to. */
export function declares (manifest: Manifest): string[] {
  const more = [
    ...Object.values({ ...manifest.consumes, ...manifest.consumesOptional })
      .map(({ id }) => `uses the service ${id}`),
    ...Object.values(manifest.capabilities ?? {}).map((c) => `capability ${c.id}@${c.version}: ${c.title}`),
    ...Object.keys(fieldsOf(manifest.config ?? {})).map((key) => `setting plugins.${manifest.name}.${key}`),
    ...Object.keys(manifest.settings ?? {}).map((key) => `setting ${key}`)
  ].map((line) => `  ${line}`)
  const asks = asksFor(manifest)
  return more.length > 0 && asks.length === 0 ? [`${manifest.name} adds:`, ...more] : [...asks, ...more]
}

/** What a plugin adds that its operator should know of before it runs. */
function asksFor (manifest: Manifest): string[] {
  const routes = Object.values(manifest.routes ?? {})
    .map((r) => `${r.method} ${r.url} (authority ${r.authority ?? 'none'})`)
  const authorities = Object.entries(manifest.authorities ?? {})
    .map(([key, text]) => `authority ${key}: ${text}`)
  const all = [...routes, ...authorities]
  return all.length === 0 ? [] : [`${manifest.name} adds:`, ...all.map((line) => `  ${line}`)]
}

/** `svc plugin disable` */
export const disable: Verb = {
  async run (ctx, [name], options) {
    if (ctx.elsewhere !== undefined) return await switchElsewhere(ctx, name!, false, options['config'])
    const installation = await installationOf(ctx, options['config'])
    findPlugin(installation, name!)
    const off = disabledIn(installation)
    const before = arranged(installation, off).order
    const { order } = arranged(installation, off.add(name!))
    const goes = before.filter((one) => !order.includes(one) && one !== name)
    const { file, ...effect } = await switched(ctx, installation, name!, false, options['config'])
    if (ctx.out.json) {
      ctx.out.value({ plugins: [{ name, enabled: false, file, goesDown: goes, ...effect }] })
      return
    }
    ctx.out.line(`${name!} is disabled in ${file}${effect.inEffect ? ', and stopped' : ''}.`)
    if (goes.length > 0) ctx.out.line(`With it goes down: ${goes.join(', ')} (they require it).`)
    tellEffect(ctx, effect)
  }
}

/** `svc plugin show` */
export const show: Verb = {
  async run (ctx, [name], options) {
    const installation = await installationOf(ctx, options['config'])
    const { manifest, source } = findPlugin(installation, name!)
    if (ctx.out.json) {
      ctx.out.value(manifest)
      return
    }
    const dependants = installation.plugins.map((p) => p.manifest)
      .filter((m) => (m.requires ?? []).some((need) => parseNeed(need).name === name)).map((m) => m.name)
    ctx.out.line(`${manifest.name} ${manifest.version} (${source})\n${manifest.summary}`)
    ctx.out.line(`requires: ${(manifest.requires ?? []).join(', ') || 'nothing'}`)
    ctx.out.line(`required by: ${dependants.join(', ') || 'nothing'}`)
    for (const section of sectionsOf(manifest)) printSection(ctx.out, section)
  }
}

interface Section { title: string, headers: string[], rows: string[][] }

/** Everything a manifest declares, as tables. */
function sectionsOf (m: Manifest): Section[] {
  const rows = <T> (
    record: Readonly<Record<string, T>> | undefined, row: (key: string, value: T) => string[]
  ): string[][] =>
    Object.entries(record ?? {}).map(([key, value]) => row(key, value))
  const summaries = (
    title: string, record: Readonly<Record<string, { summary: string }>> | undefined
  ): Section =>
    ({ title, headers: ['NAME', 'MEANING'], rows: rows(record, (key, value) => [key, value.summary]) })
  return [
    { title: 'Routes', headers: ['ROUTE', 'AUTHORITY', 'MEANING'],
      rows: rows(m.routes, (_, r) => [`${r.method} ${r.url}`, r.authority ?? 'none', r.summary]) },
    { title: 'Capabilities', headers: ['CAPABILITY', 'MODE', 'TITLE'],
      rows: rows(m.capabilities, (_, c) => [`${c.id}@${c.version}`, c.io_mode, c.title]) },
    { title: 'Authorities it adds', headers: ['NAME', 'MEANING'],
      rows: rows(m.authorities, (key, text) => [key, text]) },
    { title: 'Errors', headers: ['REASON', 'STATUS', 'MEANING', 'WHAT TO DO'],
      rows: rows(m.errors, (key, e) => [key, String(e.status), e.message, e.remedy]) },
    { title: 'Conflicts', headers: ['CODE', 'SEVERITY', 'MEANING', 'WHAT TO DO'],
      rows: rows(m.conflicts, (key, c) => [key, c.severity, c.meaning, c.remediation]) },
    summaries('Events', m.events),
    summaries('Engines', m.engines),
    summaries('Sections', m.sections),
    summaries('Verbs', m.verbs),
    { title: 'Models it ships', headers: ['MODEL'], rows: rows(m.models, (key) => [key]) },
    { title: `Settings under plugins.${m.name}`, headers: ['KEY', 'VALUE', 'MEANING'],
      rows: rows(fieldsOf(m.config ?? {}), (key, s) => [key, describe(s), String(s['description'] ?? '')]) },
    { title: 'Settings of its own in svc.yaml', headers: ['KEY', 'VALUE', 'MEANING'],
      rows: rows(m.settings, (key, s) => [key, describe(s), String(s['description'] ?? '')]) }
  ]
}

function printSection (out: Out, { title, headers, rows }: Section): void {
  if (rows.length === 0) return
  out.line(`\n${title}`)
  out.table(headers, rows)
}
