import { arranged, disabledIn, readInstallation } from '../installed.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, _args, options) {
    const installation = await readInstallation(ctx, options['config'])
    const disabled = disabledIn(installation)
    const { down } = arranged(installation, disabled)
    const plugins = installation.plugins.map(({ manifest, source }) => {
      const why = down.find((d) => d.plugin === manifest.name)?.message ?? null
      return {
        name: manifest.name,
        version: manifest.version,
        state: disabled.has(manifest.name) ? 'disabled' : why === null ? 'enabled' : 'off',
        why,
        source,
        summary: manifest.summary
      }
    })
    if (ctx.out.json) ctx.out.value({ plugins })
    else {
      ctx.out.table(['PLUGIN', 'VERSION', 'STATE', 'FROM', 'SUMMARY'],
        plugins.map((p) => [p.name, p.version, p.state, p.source, p.summary]))
    }
    for (const { why } of plugins) if (why !== null) ctx.err.line(why)
    for (const failure of installation.failures) ctx.err.line(failure)
    return installation.failures.length > 0 ? 1 : 0
  }
} satisfies Verb
