import { isVerbError, ok, plain, warn, type Checker, type StatusPart } from '../../../kernel/cli/index.js'
import type { FromSchema } from '../../../kernel/index.js'
import type { routes } from '../routes.js'

type RelayView = FromSchema<typeof routes.own.reply>

const times = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`

/** Describes the relay connection in one line; undefined if the node uses no relay. */
export function described (view: RelayView): string | undefined {
  const { connected, connections, reason, route, since, streams, url } = view
  if (url === null) return undefined
  if (!connected) return `not connected to ${plain(url)}: ${plain(reason ?? 'it was not reached yet')}`
  const open = `${times(connections, 'connection')}, ${times(streams, 'stream')}`
  return `connected to ${plain(url)} since ${since ?? ''}, route ${route ?? ''}: ${open}`
}

export const status: StatusPart = {
  async run ({ look }) {
    const view = await look<RelayView>('/v1/relay')
    if (isVerbError(view)) return { json: {}, above: [], below: [] }
    const line = described(view)
    return { json: { relay: view }, above: [], below: line === undefined ? [] : [`relay: ${line}`] }
  }
}

export const doctor: Checker = {
  async run ({ look }) {
    const view = await look<RelayView>('/v1/relay')
    const line = isVerbError(view) ? undefined : described(view)
    if (isVerbError(view) || line === undefined) return []
    if (view.connected) return [ok('relay', line)]
    const remedy = 'Check that the relay runs and that relay.url in svc.yaml is its address: ' +
      `\`curl ${plain(view.url ?? '')}/healthz\``
    return [warn('relay', line, remedy, { code: 'relay_unreachable' })]
  }
}
