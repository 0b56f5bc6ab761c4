import { join } from 'node:path'
import { kernelError } from '../../../kernel/index.js'
import type { RouteRequest } from '../../../kernel/index.js'
import type { StartOptions } from '../store/types.js'
import { failureOf } from '../transfer/job.js'
import type { ModelManager } from './manager.js'

/**
 * Makes this node the store host of a cluster without one, in `<home>/store`. The master decides which node
 * it is, so that concurrent requests create only one. Resolves with the folder, or null if another node is
 * the store host. Throws `missing_grant` unless the caller is an operator, `hub_disabled`,
 * `store_not_configured`, or the master's error; then nothing has changed.
 */
export async function makeStore (
  manager: ModelManager, request: RouteRequest, { source = 'hub' }: StartOptions
): Promise<string | null> {
  const { access, ctx, hub } = manager
  if (access.known() !== undefined) return null
  if (access.learning) throw access.none()
  // Without a hub client the new store would stay empty.
  if (source === 'hub' && hub === null) throw ctx.error('hub_disabled')
  if (!request.caller.authorities.has('operator')) {
    throw kernelError('missing_grant', 'The cluster has no store, and only operators may create one.',
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
    // If this command fails too, rememberStore repeats it with the next master or at the next start.
    await ctx.command('setStore', { installId, is: false }).catch(() => undefined)
    throw ctx.error('store_not_configured', `The store cannot use the folder ${path}: ` +
      `${failureOf(error).message}. Set model_store.store_path to another folder, then restart the node.`)
  }
  log.info({ path }, 'this node is now the store host')
  return path
}
