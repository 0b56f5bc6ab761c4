// What can be done with a node as a whole.
import { call } from '../link.js'
import { Confirm } from '../ui/parts.js'
import { done } from '../ui/toast.js'
import type { ClusterNode } from '../state.js'

interface NodeDialogProps { node: ClusterNode, onClose: () => void }

export function RestartDialog ({ node, onClose }: NodeDialogProps) {
  const restart = async (): Promise<void> => {
    await call(`/admin/restart?node_id=${encodeURIComponent(node.id)}`, { method: 'POST' })
    done(`${node.name} restarts.`)
  }
  return (
    <Confirm title={`Restart ${node.name}?`} action="Restart it" onConfirm={restart} onClose={onClose}>
      <p>It lets open requests end, then replaces its process and joins again by itself.</p>
      {node.master && <p>It is the master: another node takes over meanwhile.</p>}
    </Confirm>
  )
}

export function RemoveDialog ({ node, onClose }: NodeDialogProps) {
  const remove = async (): Promise<void> => {
    const id = node.identity?.nodeInstallId ?? node.id
    await call(`/cluster/members/${encodeURIComponent(id)}`, { method: 'DELETE' })
    done(`${node.name} is no member any more.`)
  }
  return (
    <Confirm
      title={`Remove ${node.name} from the cluster?`} action="Remove it for good" danger
      onConfirm={remove} onClose={onClose}
    >
      <p>Its key is refused from then on. To come back it has to join anew, with a new token.</p>
    </Confirm>
  )
}
