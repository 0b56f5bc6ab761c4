import { Badge, Section, Sentence, Trouble, useAsk } from '../ui/parts.js'
import { changes } from './live.js'

const WORDS = {
  card: 'Known', copy: 'Files', backend: 'Engine', placement: 'Place', runner: 'Runner', request: 'Requests'
}

export function ChainSection ({ modelId }: { modelId: string }) {
  const { value, error, again } = useAsk('GET /models/{model_id}/availability',
    [modelId, changes.value], { params: [modelId] })
  return (
    <Section
      title="What it needs to answer"
      aside={value !== null && (
        <Badge level={value.available ? 'ok' : 'warn'}>
          {value.available ? 'available' : 'not available'}
        </Badge>
      )}
    >
      {error !== null && <Trouble error={error} again={again} />}
      {value !== null && (
        <ol class="chain">
          {value.links.map(({ link, ok, message, remedy, code }) => (
            <li key={link} class={ok === null ? 'unknown' : ok ? 'whole' : 'broken'}>
              <p>
                <strong>{WORDS[link]}</strong>{' '}
                {ok === false && <Badge level="error">{code ?? 'broken'}</Badge>}
              </p>
              <p class="hint">{message}</p>
              {ok === false && remedy !== null && <p><Sentence text={remedy} /></p>}
            </li>
          ))}
        </ol>
      )}
    </Section>
  )
}
