import type { Session } from '../../kernel/index.js'
import { failureOf } from './stager.js'
import type { Plane } from './plane.js'

/**
 * Has the cluster remember whether this node is the store host, whenever a master is known: a node that
 * starts while the store is away would think that there is none. Says so where another node is one, too.
 */
export function rememberStore (plane: Plane, session: Session): void {
  const { node: { installId }, log, options: { ctx, storePath } } = plane
  const is = storePath !== null
  const tell = (): void => {
    const others = is ? plane.access.all().filter(({ self }) => !self) : []
    if (others.length > 0) ctx.raise('second_store', others.map(({ name }) => name).join(', '))
    else ctx.clear('second_store')
    const known = ctx.sections.stores.get(installId) !== undefined
    if (session.masterNodeId === null || known === is) return
    ctx.command('setStore', { installId, is }).catch((error: unknown) => {
      log.warn({ error: failureOf(error).message }, 'the cluster does not know of this store yet')
    })
  }
  ctx.effect('store host', session.onChange(tell))
  ctx.sections.stores.observe(tell)
  // Commands are known once every plugin has started.
  ctx.effect('store host at start', ctx.clock.after(0, tell))
}
