import { formatProblems } from '../../config/problems.js'
import { resolveConfig } from '../../config/resolve.js'
import { checkManifests } from '../../plugins/registry.js'
import { settingsEnv } from '../env.js'
import { arranged, authoritiesOf, disabledIn, ownersOf, readInstallation } from '../installed.js'
import type { Verb } from '../verb.js'

export default {
  async run (ctx, _args, options) {
    const installation = await readInstallation(ctx, options['config'])
    const { raw, plugins, failures, file } = installation
    const { problems, warnings } = resolveConfig(raw, {
      owners: ownersOf(plugins), env: settingsEnv(ctx.io.env), authorities: authoritiesOf(plugins)
    })
    const graph = [...failures, ...checkManifests(plugins.map((p) => p.manifest)),
      ...arranged(installation, disabledIn(installation)).problems]
    const wrong = problems.length + graph.length
    if (ctx.out.json) {
      const plain = graph.map((message) => ({ file, line: null, column: null, path: '', message }))
      ctx.out.value({ file, problems: [...problems, ...plain], warnings })
      return wrong === 0 ? 0 : 1
    }
    const lines = [formatProblems(problems, ctx.io.cwd), ...graph].filter((text) => text !== '')
    if (warnings.length > 0) {
      ctx.err.line(`${ctx.err.paint('yellow', 'warnings:')}\n${formatProblems(warnings, ctx.io.cwd)}`)
    }
    if (wrong > 0) ctx.out.line(lines.join('\n'))
    const good = `${file ?? 'no svc.yaml, the defaults'}: ok`
    ctx.out.line(wrong === 0 ? good : `${wrong} problem${wrong === 1 ? '' : 's'}`)
    return wrong === 0 ? 0 : 1
  }
} satisfies Verb
