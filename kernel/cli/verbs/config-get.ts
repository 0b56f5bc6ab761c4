import { formatProblems } from '../../config/problems.js'
import { resolveConfig } from '../../config/resolve.js'
import { settingsEnv } from '../env.js'
import { authoritiesOf, ownersOf, readInstallation, settingSchema } from '../installed.js'
import type { Entry } from '../../config/resolve.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, [key], options) {
    const { raw, plugins, file } = await readInstallation(ctx, options['config'])
    const owners = ownersOf(plugins)
    const { config, problems } = resolveConfig(raw, {
      owners, env: settingsEnv(ctx.io.env), authorities: authoritiesOf(plugins)
    })
    if (problems.length > 0) {
      throw ctx.fail(1, `the settings are not valid:\n${formatProblems(problems, ctx.io.cwd)}`)
    }
    const entries = config.entries(key)
    if (key !== undefined && entries.length === 0) settingSchema(owners, key)
    if (ctx.out.json) ctx.out.value({ settings: entries })
    else if (options['origin'] === true) {
      ctx.out.table(['SETTING', 'VALUE', 'FROM'], entries.map((e) => [e.path, shown(e), originOf(e, file)]))
    } else if (entries.length === 1 && entries[0]!.path === key) {
      ctx.out.line(typeof entries[0]!.value === 'string' ? entries[0]!.value : shown(entries[0]!))
    } else for (const entry of entries) ctx.out.line(`${entry.path}: ${shown(entry)}`)
  }
} satisfies Verb

function shown (entry: Entry): string { return JSON.stringify(entry.value) }

function originOf (entry: Entry, file: string | null): string {
  if (entry.origin === 'file') return `${file ?? 'file'}:${entry.line ?? 1}`
  return entry.origin === 'default' ? 'default' : `${entry.origin} ${entry.source ?? ''}`.trim()
}
