import { join } from 'node:path'
import { kernelError } from '../../../kernel/index.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { StartOptions } from '../store/types.js'
import { failureOf } from '../transfer/job.js'
import type { ModelManager } from './manager.js'

/**
 * Makes this node the store host, in `<home>/store`, where the cluster has none. The master says which node
 * it is, so that two that are asked at once do not both become it. Resolves with the folder, or null where
 * another node is the store host. Throws `missing_grant` for who is not the operator, `hub_disabled`,
 * `store_not_configured` with the reason, and why the master cannot be asked; then nothing has changed.
 */
export async function makeStore (
  manager: ModelManager, request: RouteRequest, { source = 'hub' }: StartOptions
): Promise<string | null> {
  const { access, ctx, hub } = manager
  if (access.known() !== undefined) return null
  if (access.learning) throw access.none()
  // There would be nothing to put into it.
  if (source === 'hub' && hub === null) throw ctx.error('hub_disabled')
  if (!request.caller.authorities.has('operator')) {
    throw kernelError('missing_grant', 'The cluster has no store, and only the operator may make a node one.',
      { authority: 'operator' })
  }
  manager.making ??= become(manager, request).finally(() => { manager.making = null })
  const path = await manager.making
  if (path === null) await access.learned(request.signal, true)
  return path
}

async function become (manager: ModelManager, { caller }: RouteRequest): Promise<string | null> {
  const { ctx, ctx: { log, node: { home, installId }, deps: { config } } } = manager
  const { host } = await ctx.command('claimStore', { installId })
  if (host !== installId) return null
  const path = join(home, 'store')
  try {
    await manager.becomeStore(path, () => { config.keep('model_store.store_path', path, caller) })
  } catch (error) {
    // Where even that fails, it is told with the next master or at the next start.
    await ctx.command('setStore', { installId, is: false }).catch(() => undefined)
    throw ctx.error('store_not_configured', `This node cannot keep the store in ${path}: ` +
      `${failureOf(error).message}. Set model_store.store_path to another folder, and restart it.`)
  }
  log.info({ path }, 'this node keeps the store of the cluster from now on')
  return path
}
