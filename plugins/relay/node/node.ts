import { randomBytes } from 'node:crypto'
import { meetingOf } from '../relay-address.js'
import { Inbound } from './inbound.js'
import { Uplink } from './uplink.js'
import type { RelayContext } from '../manifest.js'
import type { UplinkState } from './uplink.js'

/** Time in ms without the relay after which the node raises a conflict. */
export const ABSENT_CONFLICT_MS = 60_000

export interface RelayNode { view (): object }

const NOWHERE = {
  url: null, route: null, connected: false, since: null, reason: null, connections: 0, streams: 0
}

/** Connects this node to the relay in its settings, and admits devices. */
export function startNode (ctx: RelayContext, chance: () => number): RelayNode {
  const { clock, deps: { devices, identity, listeners }, log, settings: { relay: { url } } } = ctx
  if (url === null) return { view: () => NOWHERE }
  const inbound = new Inbound({
    url, own: { publicKey: identity.agreementKey, agree: (peer) => identity.agree(peer) }, clock, log,
    route: (): string => uplink.route, random: randomBytes, nodeId: ctx.node.nodeId,
    deviceWith: (key) => devices.deviceWith(key), stands: (id) => devices.stands(id),
    accept: (connection, from) => { listeners.accept(connection, from) }
  })
  const uplink = new Uplink({
    url, identity, clock, log, chance,
    device: (ticket) => { inbound.take(ticket) },
    changed: watchAway(ctx, url)
  })
  ctx.sections.relayMeetings.put('own', meetingOf(identity, url, ctx.node))
  ctx.effect('the relay', () => {
    uplink.stop()
    inbound.stop()
  })
  uplink.start()
  return { view: () => ({ url, route: uplink.route, ...uplink.state, ...inbound.counts }) }
}

/** Emits events when the relay is reached and lost, and raises a conflict after a long absence. */
function watchAway ({ clear, clock, emit, raise }: RelayContext, url: string): (state: UplinkState) => void {
  let stop: (() => void) | undefined
  let met = false
  return ({ connected, reason }) => {
    if (connected) {
      stop?.()
      stop = undefined
      met = true
      clear('relay_unreachable')
      emit('RelayConnected', { url })
      return
    }
    if (met) emit('RelayLost', { url, reason: reason ?? '' })
    met = false
    stop ??= clock.after(ABSENT_CONFLICT_MS, () => {
      raise('relay_unreachable',
        `${url}, for more than ${ABSENT_CONFLICT_MS / 1000} s: ${reason ?? 'no response'}`)
    })
  }
}
