import { fact, nearest, quoted, createToolReads } from '../../../kernel/cli/index.js'
import type { Evidence, Fact, Tool } from '../../../kernel/cli/index.js'

/** A setting of GET /config; its secrets are masked. */
interface Entry { path: string, value: unknown, origin: string, source?: string }

interface Config { file: string, entries: Entry[], restart_needed?: boolean }

const MOST = 39
const CONFIG: Evidence = { kind: 'path', path: '/config' }

/** Settings of the node that receives the question: one, all under a path, or all that were set. */
export default {
  async run (ctx, { path }) {
    const look = createToolReads(ctx)
    const config = await look.read<Config>('The settings', '/config')
    if (config === null) return { facts: [], unknown: look.unknown }
    const { entries, file } = config
    return {
      facts: [...changed(config), ...path === undefined ? set(entries, file) : named(entries, path)],
      unknown: look.unknown
    }
  }
} satisfies Tool<{ path?: string }>

function changed ({ file, restart_needed: needed }: Config): Fact[] {
  if (needed !== true) return []
  const text = `${quoted(file)} has changed since the node started: what it says now is not in force.`
  return [fact('warn', 'restart_needed', text, {
    evidence: [CONFIG], remedy: 'Restart the node: `svc restart`.'
  })]
}

function set (entries: readonly Entry[], file: string): Fact[] {
  const own = entries.filter(({ origin }) => origin !== 'default')
  return own.length === 0
    ? [fact('info', 'settings_default', `Nothing is set: all has its default (${quoted(file)}).`,
        { evidence: [CONFIG] })]
    : own.slice(0, MOST).map(factOf)
}

function named (entries: readonly Entry[], asked: string): Fact[] {
  const wanted = asked.toLowerCase()
  const exact = entries.filter((one) => one.path.toLowerCase() === wanted)
  const under = entries.filter((one) => one.path.toLowerCase().startsWith(`${wanted}.`))
  const last = entries.filter((one) => one.path.toLowerCase().endsWith(`.${wanted}`))
  const found = [exact, under, last].find((some) => some.length > 0) ?? []
  if (found.length > 0) return found.slice(0, MOST).map(factOf)
  const near = nearest(asked, entries.map((one) => one.path))
  return [fact('info', 'setting_unknown', `There is no setting ${quoted(asked, 80)} in force` +
    `${near === undefined ? '' : `; the nearest is ${near}`}.`, {
    about: near === undefined ? [] : [near], evidence: [CONFIG], remedy: 'List them with `svc config get`.'
  })]
}

function factOf ({ path, value, origin, source }: Entry): Fact {
  const from = origin === 'default' ? 'the default' : `from ${quoted(source ?? origin, 80)}`
  const said = quoted(JSON.stringify(value) ?? 'unset', 300)
  return fact('info', 'setting', `${quoted(path)} is ${said} (${from}).`,
    { about: [quoted(path)], evidence: [CONFIG] })
}
