import * as Y from 'yjs'
import { deepFreeze } from '../config/paths.js'
import { compileStrict, issuesOf } from '../validate.js'
import { kernelError } from '../errors.js'
import type { Section, SectionDecl } from '../define.js'

/** Origin of every transaction this node makes, so that observers know whose change it was. */
export const LOCAL = { source: 'local' } as const

export interface DocumentsOptions {
  nodeId: string
  isMaster: () => boolean
}

/**
 * The cluster's documents. Each Y.Doc has exactly one writer: the control document the master, each
 * observed document its node. Values are plain JSON under flat keys `section/key`; nothing outside this
 * folder sees a Yjs type. Here a lone node: its own master, no replicas.
 */
export interface Documents {
  section<T> (name: string, decl: SectionDecl): Section<T>
  /** Number of keys in both documents, for diagnostics. */
  size (): { control: number, observed: number }
  close (): void
}

/** Opens empty documents; `close` destroys them. */
export function createDocuments (options: DocumentsOptions): Documents {
  const control = new Y.Doc()
  const observed = new Y.Doc()
  return {
    section: <T>(name: string, decl: SectionDecl) => decl.writer === 'master'
      ? openSection<T>(control, name, decl, options, options.isMaster)
      : openSection<T>(observed, name, decl, options, () => true),
    size: () => ({ control: control.getMap('root').size, observed: observed.getMap('root').size }),
    close () { control.destroy(); observed.destroy() }
  }
}

function openSection<T> (
  doc: Y.Doc, name: string, decl: SectionDecl, options: DocumentsOptions, mayWrite: () => boolean
): Section<T> {
  const root = doc.getMap<T>('root')
  const prefix = `${name}/`
  const validate = compileStrict(decl.value)
  const write = (change: () => void): void => {
    if (!mayWrite()) throw kernelError('not_master', `Only the master writes "${name}".`)
    doc.transact(change, LOCAL)
  }
  return {
    put (key, value) {
      if (!validate(value)) {
        const [issue] = issuesOf(validate.errors)
        const what = `${issue?.path ?? ''} ${issue?.message ?? 'is not valid'}`
        throw new TypeError(`section "${name}", key "${key}": ${what}`)
      }
      // Frozen: a reader that changed what it got would change the document unseen.
      write(() => { root.set(prefix + key, deepFreeze(structuredClone(value))) })
    },
    remove (key) { if (root.has(prefix + key)) write(() => { root.delete(prefix + key) }) },
    get: (key) => root.get(prefix + key),
    * entries () {
      for (const [key, value] of root.entries()) {
        if (key.startsWith(prefix)) yield { nodeId: options.nodeId, key: key.slice(prefix.length), value }
      }
    },
    observe (fn) {
      const listener = (event: Y.YMapEvent<T>): void => {
        if ([...event.keysChanged].some((key) => key.startsWith(prefix))) fn()
      }
      root.observe(listener)
      return () => { root.unobserve(listener) }
    }
  }
}
