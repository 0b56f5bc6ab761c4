import { describe, fieldsOf, type Out, type Verb } from '../../../kernel/cli/index.js'
import { asksFor, findPlugin, installationOf, neededBy } from '../../../kernel/installing.js'
import type { Manifest } from '../../../kernel/index.js'

/** Lists a plugin's routes, authorities, services, capabilities and settings for the install prompt. */
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

export default {
  async run (ctx, [name], options) {
    const installation = await installationOf(ctx, options['config'])
    const { manifest, source } = findPlugin(installation, name!)
    if (ctx.out.json) return ctx.out.value(manifest)
    const dependants = installation.plugins.map((p) => p.manifest)
      .filter((m) => neededBy(m).includes(manifest.name)).map((m) => m.name)
    ctx.out.line(`${manifest.name} ${manifest.version} (${source})\n${manifest.summary}`)
    ctx.out.line(`requires: ${neededBy(manifest).join(', ') || 'nothing'}`)
    ctx.out.line(`required by: ${dependants.join(', ') || 'nothing'}`)
    for (const section of sectionsOf(manifest)) printSection(ctx.out, section)
  }
} satisfies Verb

interface Section { title: string, headers: string[], rows: string[][] }

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
    { title: 'Authorities', headers: ['NAME', 'MEANING'],
      rows: rows(m.authorities, (key, text) => [key, text]) },
    { title: 'Errors', headers: ['REASON', 'STATUS', 'MEANING', 'WHAT TO DO'],
      rows: rows(m.errors, (key, e) => [key, String(e.status), e.message, e.remedy]) },
    { title: 'Conflicts', headers: ['CODE', 'SEVERITY', 'MEANING', 'WHAT TO DO'],
      rows: rows(m.conflicts, (key, c) => [key, c.severity, c.meaning, c.remediation]) },
    summaries('Events', m.events),
    summaries('Engines', m.engines),
    summaries('Sections', m.sections),
    summaries('Verbs', m.verbs),
    { title: 'Bundled models', headers: ['MODEL'], rows: rows(m.models, (key) => [key]) },
    { title: `Settings under plugins.${m.name}`, headers: ['KEY', 'VALUE', 'MEANING'],
      rows: rows(fieldsOf(m.config ?? {}), (key, s) => [key, describe(s), String(s['description'] ?? '')]) },
    { title: 'Top-level settings in svc.yaml', headers: ['KEY', 'VALUE', 'MEANING'],
      rows: rows(m.settings, (key, s) => [key, describe(s), String(s['description'] ?? '')]) }
  ]
}

function printSection (out: Out, { title, headers, rows }: Section): void {
  if (rows.length === 0) return
  out.line(`\n${title}`)
  out.table(headers, rows)
}
