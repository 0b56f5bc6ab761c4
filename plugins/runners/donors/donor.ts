import type { Socket } from 'node:net'
import { kernelError, whileLive } from '../../../kernel/index.js'
import type { Logger, MemberParts, RouteRequest, Section } from '../../../kernel/index.js'
import type { RunnerSet } from '../instances/runner-set.js'
import { reasonOf } from '../process/errors.js'
import type { routes } from '../routes.js'
import { assignmentOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import type { Gangs } from './gang.js'
import { roleOf } from './role.js'
import {
  connected, NODE_CALLER, receive, send, STALL_MS, TUNNEL_TYPE, TUNNELS_MAX, TUNNELS_PATH
} from './tunnel.js'

/** Milliseconds to wait for the driver's node to answer the request for the driver's bytes. */
const HEAD_MS = 10_000

interface DonorParts extends MemberParts {
  nodeId: string
  instances: Section<Instance>
  fleet: Pick<RunnerSet, 'get'>
  gangs: Pick<Gangs, 'connect'>
  log: Logger
  newId (): string
}

type DonorRequest = RouteRequest<typeof routes.donor>

/**
 * Handler of POST /runners/donors: tunnels a connection from an instance's driver to the rpc-server of the
 * donor on this node, or from a rank of a gang to the next one on this node. The response carries the donor's
 * bytes; the driver's bytes are fetched from its node.
 */
export function donorHandler (parts: DonorParts): (request: DonorRequest) => Promise<void> {
  const open = new Map<string, number>()
  return async (request) => {
    const { runnerId } = request.body
    const { member, isGang } = checkDriver(parts, request)
    const count = open.get(runnerId) ?? 0
    if (count >= TUNNELS_MAX) {
      throw kernelError('overloaded', `The donor ${runnerId} already has ${count} connections.`)
    }
    open.set(runnerId, count + 1)
    try {
      await carry(parts, request, member, isGang)
    } finally {
      const left = (open.get(runnerId) ?? 1) - 1
      if (left > 0) open.set(runnerId, left)
      else open.delete(runnerId)
    }
  }
}

/** The install id of the driver's node. Throws for any other caller and for an unknown instance. */
function checkDriver (
  { nodeId, cluster, instances }: DonorParts, request: DonorRequest
): { member: string, isGang: boolean } {
  const { body: { instanceId, runnerId }, member } = request
  const instance = instances.get(instanceId)
  const role = instance === undefined ? null : roleOf(instance, nodeId)
  const isGang = role?.kind === 'gang'
  const from = isGang ? role.ranks.at(role.rank - 1)!.nodeId
    : role?.kind === 'donor' ? role.driverNode : undefined
  const named = from !== undefined && assignmentOf(instance!, nodeId)?.runnerId === runnerId
  if (member === null || (named && cluster.resolve(from)?.installId !== member)) {
    throw kernelError('not_found')
  }
  if (named) return { member, isGang }
  throw kernelError('instance_lost', `Runner ${runnerId} of instance ${instanceId} is no donor on this node.`)
}

async function carry (
  parts: DonorParts, request: DonorRequest, member: string, isGang: boolean
): Promise<void> {
  const { body: { instanceId, runnerId, feedId } } = request
  const { signal, end } = whileLive(parts, member, request.signal)
  try {
    const socket = isGang ? await parts.gangs.connect(runnerId, request.body.run, signal)
      : await reach(parts, request.body, signal)
    signal.addEventListener('abort', () => { socket.destroy() }, { once: true })
    const feed = await parts.cluster.request(member, {
      method: 'GET', path: `${TUNNELS_PATH}/${feedId}`, caller: NODE_CALLER, signal, timeoutMs: HEAD_MS
    })
    if (feed.status !== 200) throw kernelError('instance_lost', `The driver's node answered ${feed.status}.`)
    const stream = request.open({ contentType: TUNNEL_TYPE, stallMs: STALL_MS })
    await Promise.race([receive(feed.body, socket), send(socket, stream)]).catch((error: unknown) => {
      parts.log.debug({ instanceId, runnerId, error: reasonOf(error) }, 'a connection to a donor broke')
    })
    stream.cut()
  } finally {
    // This aborts the signal, which closes the socket and the stream from the driver.
    end()
  }
}

async function reach (
  { fleet, newId }: DonorParts, { runnerId, run }: DonorRequest['body'], signal: AbortSignal
): Promise<Socket> {
  try {
    const task = { kind: 'endpoint', payload: { run } }
    const opened = fleet.get(runnerId)?.supervisor?.open(newId(), task, signal)
    let port = 0
    for await (const { payload } of opened ?? []) port = Number(payload['port'])
    if (!(port > 0 && port < 65_536)) throw new Error('its runner is not ready')
    return await connected(port, signal)
  } catch (error) {
    throw kernelError('instance_lost', `The donor ${runnerId} cannot be reached: ${reasonOf(error)}.`)
  }
}
