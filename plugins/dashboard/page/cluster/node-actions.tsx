import { ask } from '../link.js'
import { Confirm } from '../ui/parts.js'
import { count } from '../ui/text.js'
import { done, ended } from '../ui/toast.js'
import type { ClusterNode } from '../state.js'

interface NodeDialogProps { node: ClusterNode, onClose: () => void }

export function DrainDialog ({ node, running, onClose }: NodeDialogProps & { running: number }) {
  const drain = async (): Promise<void> => {
    done((await ask('PUT /nodes/{node}/drain', { params: [node.id] })).message)
  }
  return (
    <Confirm title={`Drain ${node.name}?`} action="Drain it" onConfirm={drain} onClose={onClose}>
      <p>Nothing is placed there any more, and it stays a member.</p>
      <p>
        {running === 0
          ? 'It runs nothing now.'
          : `It runs ${count(running, 'instance')}: each ends when another node serves in its place. ` +
            'What fits nowhere else goes on here.'}
      </p>
    </Confirm>
  )
}

export async function undrain (node: ClusterNode): Promise<void> {
  done((await ask('DELETE /nodes/{node}/drain', { params: [node.id] })).message)
}

export function RestartDialog ({ node, onClose }: NodeDialogProps) {
  const restart = async (): Promise<void> => {
    await ask('POST /admin/restart', { query: { node_id: node.id } })
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
    const answer = await ask('DELETE /cluster/members/{id}', { params: [id] })
    ended(`${node.name} is no member any more.`, answer)
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
