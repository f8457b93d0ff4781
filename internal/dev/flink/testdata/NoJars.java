import java.util.ArrayList;
import java.util.List;
import org.apache.beam.sdk.util.construction.resources.PipelineResourcesDetector;

/** Keeps the job server from uploading its own class path with each job: the TaskManagers have it already. */
public class NoJars implements PipelineResourcesDetector {
  /** Named by the option pipeline_resources_detector_factory_class. */
  public static class Factory implements PipelineResourcesDetector.Factory {
    public static PipelineResourcesDetector.Factory create() {
      return new Factory();
    }

    @Override
    public PipelineResourcesDetector getPipelineResourcesDetector() {
      return new NoJars();
    }
  }

  @Override
  public List<String> detect(ClassLoader loader) {
    return new ArrayList<>();
  }
}
