import { fact, quoted, createToolReads } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, Tool } from '../../../kernel/cli/index.js'

/** A plugin as GET /v1/plugins lists it. */
interface Row { name: string, version: string, summary: string, enabled: boolean, why: string | null }

const PLUGINS: Evidence = { kind: 'path', path: '/v1/plugins' }
const OFF_MOST = 30

/** Enabled plugins of the node that receives the question, and why the others are off. */
export default {
  async run (ctx) {
    const look = createToolReads(ctx)
    const list = await look.read<{ plugins: Row[] }>('The plugins', '/v1/plugins')
    if (list === null) return { facts: [], unknown: look.unknown }
    const on = list.plugins.filter(({ enabled }) => enabled)
    const off = list.plugins.filter(({ enabled }) => !enabled)
    const names = on.map(({ name }) => quoted(name, 80))
    return {
      facts: [
        fact('info', 'plugins', `${on.length} of ${list.plugins.length} plugins are on: ${names.join(', ')}.`,
          { about: names, evidence: [PLUGINS] }),
        ...off.slice(0, OFF_MOST).map(offFact)
      ],
      unknown: look.unknown
    }
  }
} satisfies Tool

/** The fact that a plugin is off. If it requires another plugin that is off, the remedy enables that one. */
function offFact ({ name, why }: Row): Fact {
  const needs = /requires "([a-z0-9-]+)"/.exec(why ?? '')?.[1]
  const said = needs === undefined ? 'somebody switched it off' : `it needs ${needs}, which is off`
  return fact('info', 'plugin_off', `The plugin ${quoted(name, 80)} is off: ${said}.`, {
    about: [quoted(name, 80)],
    evidence: [PLUGINS],
    remedy: `Switch it on with \`svc plugin enable ${needs ?? quoted(name, 80)}\` and restart the node.`
  })
}
