"""Images of the page against those of a release."""

from tools.reference import container_images
from tools.testbed.artifacts import images


def test_each_image_of_a_release_is_on_the_page():
    page = container_images.build_page()
    for recipe in images.for_tenants():
        assert f"`{recipe.name.rpartition('/')[2]}`" in page
    for name in ("vc-manager", "vc-syncer", "vn-agent"):
        assert f"`{name}:" in page
