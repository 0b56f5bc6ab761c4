// Names of nodes, also of those that have left.
import { computed } from '@preact/signals'
import { latest } from '../link.js'
import { nodesOf } from '../state.js'

/** Every node that is known now, by name. */
export const nodes = computed(() => nodesOf(latest.value).sort((a, b) => a.name < b.name ? -1 : 1))
const names = computed(() => new Map(nodes.value.map(({ id, name }) => [id, name])))

export const nameOf = (id: string): string => names.value.get(id) ?? id.slice(0, 8)
