import { describe } from '../../config/values.js'
import { neededBy } from '../../plugins/graph.js'
import { fieldsOf } from '../fields.js'
import { failuresOf } from '../contributed.js'
import {
  apply, arranged, disabledIn, findPlugin, installationOf, pluginsAtNode, printEffect, turn
} from '../installed.js'
import { plain } from '../output.js'
import type { Manifest } from '../../api/plugin.js'
import type { Installation } from '../../plugins/installation.js'
import type { AtNode } from '../installed.js'
import type { Out } from '../output.js'
import type { Verb, VerbContext } from '../verb.js'

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
      const runs = running?.some((one) => one.name === name && one.enabled) ?? said === 'enabled'
      return runs === (said === 'enabled')
        ? { name, version, state: said, why: off, source, summary }
        : { name, version, state: runs ? 'running' : 'waiting', source, summary,
            why: `svc.yaml has ${name} ${said}, from the next restart of the node: svc restart` }
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

/** Returns the plugins that start or stop with one that svc.yaml switches. Throws CliError. */
function follows (installation: Installation, name: string, enabled: boolean): {
  manifest: Manifest, along: string[], stillOff: string | null
} {
  const { manifest } = findPlugin(installation, name)
  const off = disabledIn(installation)
  const before = arranged(installation, off).order
  if (enabled) off.delete(name)
  else off.add(name)
  const { order, down } = arranged(installation, off)
  const [more, fewer] = enabled ? [order, before] : [before, order]
  const along = more.filter((one) => one !== name && !fewer.includes(one))
  return { manifest, along, stillOff: enabled ? down.find((d) => d.plugin === name)?.message ?? null : null }
}

function turning (enabled: boolean): Verb {
  return {
    async run (ctx, [name = ''], options) {
      const { elsewhere, out } = ctx
      if (elsewhere !== undefined && options['config'] !== undefined) {
        throw ctx.fail(2, '--config names a file of this machine, --url another node')
      }
      const installation = elsewhere === undefined ? await installationOf(ctx, options['config']) : undefined
      const { manifest, along, stillOff } = installation === undefined
        ? { manifest: undefined, along: [], stillOff: null }
        : follows(installation, name, enabled)
      const { file, ...effect } = installation === undefined
        ? { file: null, ...await turn(ctx, name, enabled) }
        : await apply(ctx, installation, `plugins.${name}.enabled`, enabled, options['config'])
      if (out.json) {
        const more = enabled ? { comesBack: along, stillOff } : { goesDown: along }
        out.value({ plugins: [{ name, enabled, file, ...more, ...effect }] })
        return
      }
      for (const line of enabled && manifest !== undefined ? asksFor(manifest) : []) out.line(line)
      const [word, now] = enabled ? ['enabled', 'running'] : ['disabled', 'stopped']
      const where = file === null ? `at ${ctx.client.url}` : `in ${file}`
      out.line(`${name} is ${word} ${where}${effect.inEffect ? `, and ${now}` : ''}.`)
      if (stillOff !== null) out.line(`It stays off for now: ${stillOff}`)
      const others = along.join(', ')
      const much = enabled ? `comes back: ${others}` : `goes down: ${others} (they require it)`
      if (others !== '') out.line(`With it ${much}.`)
      printEffect(ctx, effect)
    }
  }
}

export const enable = turning(true)

export const disable = turning(false)

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

/** Additions of a plugin that its operator should see before it runs. */
function asksFor (manifest: Manifest): string[] {
  const routes = Object.values(manifest.routes ?? {})
    .map((r) => `${r.method} ${r.url} (authority ${r.authority ?? 'none'})`)
  const authorities = Object.entries(manifest.authorities ?? {})
    .map(([key, text]) => `authority ${key}: ${text}`)
  const all = [...routes, ...authorities]
  return all.length === 0 ? [] : [`${manifest.name} adds:`, ...all.map((line) => `  ${line}`)]
}

export const show: Verb = {
  async run (ctx, [name], options) {
    const installation = await installationOf(ctx, options['config'])
    const { manifest, source } = findPlugin(installation, name!)
    if (ctx.out.json) {
      ctx.out.value(manifest)
      return
    }
    const dependants = installation.plugins.map((p) => p.manifest)
      .filter((m) => neededBy(m).includes(manifest.name)).map((m) => m.name)
    ctx.out.line(`${manifest.name} ${manifest.version} (${source})\n${manifest.summary}`)
    ctx.out.line(`requires: ${neededBy(manifest).join(', ') || 'nothing'}`)
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
